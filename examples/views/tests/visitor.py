"""A process that views the pages in turn: python visitor.py COUNT. The test runs several at once.

Each answer must have all views of this process. The other processes can only add more.
"""

import sys
from collections import Counter

import django

django.setup()

from django.test import Client  # noqa: E402: after the set-up

from pages.models import Page  # noqa: E402

client = Client(headers={"host": "localhost"})
names = sorted(Page.objects.values_list("pk", flat=True))
viewed: Counter = Counter()
for number in range(int(sys.argv[1])):
    name = names[number % len(names)]
    viewed[name] += 1
    answer = client.get(f"/{name}/")
    if answer.status_code != 200 or answer.json()["views"] < viewed[name]:
        sys.exit(f"view {viewed[name]} of the page {name} was answered with {answer.status_code}: {answer.content!r}")
