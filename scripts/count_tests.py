#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Count what the tests of one meson run said: prints "PASSED FAILED", and on stderr what failed.

A program that prints TAP counts by its results, any other as one. A program that failed without saying which
result it was (it crashed, hung, or printed less than it planned) counts as one failure. Skipped ones do not count.
"""
import json
import re
import sys

RESULT = re.compile(r'^(not )?ok\b(.*)$', re.MULTILINE)


def show(test):
    """Failed results with the lines below them, or the end of the output if there are none."""
    lines = (test.get('stdout') or '').splitlines()
    shown = []
    failing = False
    for line in lines:
        if not line.startswith(('#', ' ')):
            failing = line.startswith('not ok')
        if failing:
            shown.append(line)
    shown = shown or lines[-20:]
    shown += (test.get('stderr') or '').splitlines()[-40:]
    print('--', test['name'], test['result'], file=sys.stderr)
    print('\n'.join(shown), file=sys.stderr)


def count(test):
    passed = failed = 0
    for result in RESULT.finditer(test.get('stdout') or ''):
        if re.search(r'#\s*SKIP', result[2], re.IGNORECASE):
            continue
        if result[1]:
            failed += 1
        else:
            passed += 1
    if test['result'] in ('OK', 'EXPECTEDFAIL'):
        # Under should_fail the program's own failures are what was wanted.
        return (max(passed, 1), 0) if test['result'] == 'OK' else (1, 0)
    if test['result'] == 'SKIP':
        return 0, 0
    return passed, max(failed, 1)


def main():
    passed = failed = 0
    with open(sys.argv[1], encoding='utf-8') as log:
        for line in log:
            test = json.loads(line)
            p, f = count(test)
            if f:
                show(test)
            passed += p
            failed += f
    print(passed, failed)


main()
