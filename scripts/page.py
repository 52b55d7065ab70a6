#!/usr/bin/env python3
"""Shows an HTML page in Chromium at a given width, in light or dark mode.

    page.py check PAGE                       measures it at 390, 640 and 1200 pixels, light and dark
    page.py picture PAGE WIDTH SCHEME FILE [HEIGHT]    a PNG of the whole page, or of its top, with
                                             64 colours

check ends with code 1 if the page is wider than the screen, if something sticks out of it, if
letters stand below each other, or if a short word is broken. Both end with code 3 if Chromium is
not installed.

Chromium is driven through a pipe (its DevTools protocol, messages that end with a zero byte),
because its window cannot be narrower than 500 pixels.
"""

import base64
import collections
import fcntl
import itertools
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

WIDTHS = (390, 640, 1200)
SCHEMES = ("light", "dark")

# What is wrong with the layout, as phrases. A block that is narrower than two letters and taller
# than three lines has its letters below each other.
PROBLEMS = """
(() => {
  const wide = document.documentElement.clientWidth, problems = [];
  if (document.documentElement.scrollWidth > wide)
    problems.push(`the page has ${document.documentElement.scrollWidth} pixels`);
  for (const e of document.body.querySelectorAll('*')) {
    const head = e.closest('thead'), hidden = head && getComputedStyle(head).position === 'absolute';
    if (!e.checkVisibility() || e.closest('svg') || hidden) continue;
    const box = e.getBoundingClientRect(), name = e.tagName + '.' + e.className;
    if (box.right > wide + 1 || box.left < -1)
      problems.push(`${name} ends at ${Math.round(box.right)}: ${e.textContent.slice(0, 40)}`);
    const texts = [...e.childNodes].filter(n => n.nodeType === 3);
    const own = texts.map(n => n.data.trim()).join('');
    const style = getComputedStyle(e), size = parseFloat(style.fontSize);
    const narrow = box.width < 3 * size && box.height > 4 * size;
    if (own.length > 5 && style.display !== 'inline' && narrow)
      problems.push(`${name} stacks its letters: ${own.slice(0, 40)}`);
    // A word of a few letters has room on one line.
    for (const node of texts)
      for (const word of node.data.matchAll(/[\\w.]+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map(line => Math.round(line.top)));
        if (word[0].length <= 20 && lines.size > 1)
          problems.push(`${name} breaks the word ${word[0]}`);
      }
  }
  return problems.slice(0, 10);
})()
"""


class Browser:
    """Chromium without a window."""

    def __init__(self):
        program = shutil.which("chromium")
        if program is None:
            print("Chromium is not installed: apt-get install chromium", file=sys.stderr)
            sys.exit(3)
        self.home = tempfile.TemporaryDirectory()
        to_read, self.to = os.pipe()
        self.answers, to_write = os.pipe()

        def pipes():
            # The pipe has these two numbers. Copies above them first, which can be in use.
            copies = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_read, to_write)]
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             # The page must not fetch anything. If it tries, the request fails at once.
             "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe",
             f"--user-data-dir={self.home.name}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.home.name},
        )
        os.close(to_read)
        os.close(to_write)
        self.rest = b""
        self.numbers = itertools.count(1)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.call("Page.enable")

    session = None

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.answers, 1 << 16)
            if not more:
                raise SystemExit("Chromium ended")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        """The result of a method. Raises SystemExit for an error."""
        number = next(self.numbers)
        request = {"id": number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]

    def show(self, page, width, scheme):
        """Loads a page on a screen of this width in pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < 640)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=pathlib.Path(page).resolve().as_uri())
        while self.message().get("method") != "Page.loadEventFired":
            pass

    def problems(self):
        result = self.call("Runtime.evaluate", expression=PROBLEMS, returnByValue=True)
        return result["result"]["value"]

    def picture(self, width, height=None):
        """A PNG of the page, or of its first pixels."""
        whole = self.call("Page.getLayoutMetrics")["cssContentSize"]["height"]
        height = min(height or whole, whole)
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                          clip=clip)
        return base64.b64decode(taken["data"])

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait()
        self.home.cleanup()


def rows_of(png):
    """Width, height, and the rows of a PNG with 8 bits for each of 3 or 4 channels."""
    at, data = 8, b""
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if name == b"IHDR":
            width, height, depth, kind = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and kind in (2, 6), (depth, kind)
        if name == b"IDAT":
            data += body
        at += length + 12
    each = 4 if kind == 6 else 3
    data, stride = zlib.decompress(data), width * each
    before, rows = bytearray(stride), []
    for start in range(0, len(data), stride + 1):
        row = bytearray(data[start + 1:start + 1 + stride])
        unfilter(data[start], row, before, each)
        rows.append(row)
        before = row
    return width, height, each, rows


def unfilter(how, row, above, each):
    """Undoes a filter of PNG (https://www.w3.org/TR/png-3/#9Filters) in place."""
    if how == 2:
        row[:] = bytes((a + b) & 255 for a, b in zip(row, above))
    elif how:
        for i, value in enumerate(row):
            left = row[i - each] if i >= each else 0
            if how == 1:
                guess = left
            elif how == 3:
                guess = (left + above[i]) // 2
            else:
                corner = above[i - each] if i >= each else 0
                both = left + above[i] - corner
                guess = min((left, above[i], corner), key=lambda near: abs(both - near))
            row[i] = (value + guess) & 255


def small(png):
    """The same picture with at most 64 colours: the most frequent ones that differ visibly."""
    width, height, each, rows = rows_of(png)
    pixels = [[bytes(row[i:i + 3]) for i in range(0, len(row), each)] for row in rows]
    counts = collections.Counter(pixel for row in pixels for pixel in row)

    def distance(one, other):
        return sum((a - b) ** 2 for a, b in zip(one, other))

    kept = []
    for colour, _ in counts.most_common():
        if len(kept) < 64 and all(distance(colour, other) > 300 for other in kept):
            kept.append(colour)
    place = {}
    for colour in counts:
        place[colour] = min(range(len(kept)), key=lambda i: distance(colour, kept[i]))
    lines = b"".join(b"\0" + bytes(place[pixel] for pixel in row) for row in pixels)

    def chunk(name, body):
        sum_of_both = struct.pack(">I", zlib.crc32(name + body))
        return struct.pack(">I", len(body)) + name + body + sum_of_both

    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"PLTE", b"".join(kept))
            + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))


def main(work, page, *more):
    browser = Browser()
    failed = False
    if work == "check":
        for width, scheme in itertools.product(WIDTHS, SCHEMES):
            browser.show(page, width, scheme)
            for problem in browser.problems():
                failed = True
                print(f"{width} pixels, {scheme}: {problem}")
    else:
        width, scheme, file, *height = more
        browser.show(page, int(width), scheme)
        pathlib.Path(file).write_bytes(small(browser.picture(int(width), *map(int, height))))
    browser.close()
    return int(failed)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("check", "picture"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
