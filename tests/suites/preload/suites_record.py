"""Records what each test of a suite said: a line of JSON [outcome, id, reason] in SUITES_RESULTS.

As pytest's plugin (-p suites_record), or as a program that runs a program that uses unittest:
suites_record.py PROGRAM ARGUMENT... or suites_record.py -m MODULE ARGUMENT...
"""

import json
import os
import runpy
import sys
import unittest

#: The frames of this module are not in tracebacks.
__unittest = True


def record(outcome, name, reason=""):
    with open(os.environ["SUITES_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps([outcome, name, reason]) + "\n")


def last_line(error):
    return f"{error[0].__name__}: {error[1]}"[:1000]


def pytest_runtest_logreport(report):
    # Only the test itself passes; what is before and after it fails or is skipped.
    if report.failed or report.when == "call" or report.skipped:
        reason = "" if report.passed else str(report.longrepr).strip().rsplit("\n", 1)[-1][:1000]
        record(report.outcome, report.nodeid, reason)


def pytest_collectreport(report):
    if report.failed:
        record("failed", report.nodeid, str(report.longrepr).strip().rsplit("\n", 1)[-1][:1000])


def recording(name, outcome, reason=lambda _: ""):
    of_unittest = getattr(unittest.TestResult, name)

    def method(self, test, *rest):
        # An error in one of the parts of a test; None if the part has passed. Tests of Django's
        # runner give no test.
        if test and (name != "addSubTest" or rest[1]):
            record(outcome, test.id(), reason(rest[-1] if rest else None))
        return of_unittest(self, test, *rest)

    setattr(unittest.TestResult, name, method)


def main():
    recording("addSuccess", "passed")
    recording("addExpectedFailure", "passed")
    recording("addUnexpectedSuccess", "failed")
    recording("addSkip", "skipped", str)
    recording("addFailure", "failed", last_line)
    recording("addError", "failed", last_line)
    recording("addSubTest", "failed", last_line)
    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        sys.path[0] = os.getcwd()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
