"""Comparison of what an agent has answered with what a story expects."""

MATCHERS = frozenset(["any", "least", "members", "has", "either", "keep", "same", "above"])


class Mismatch(Exception):
    """An answer that is not the expected one; the text says where they differ."""


def check_answer(answer, step, kept):
    """Raises :class:`Mismatch` unless an answer is as a step expects it.

    ``kept`` has the values that the story has kept so far, and gets new ones.
    """
    if "lost" in answer:
        raise Mismatch(answer["lost"])
    if answer.get("error") is not None:
        if "error" not in step:
            raise Mismatch("an error instead of a value")
        check_error(answer["error"], step["error"], kept)
        return
    if "value" not in answer:
        raise Mismatch("an answer with neither a value nor an error")
    if "expect" in step:
        check_value(answer["value"], step["expect"], kept, "the value")
    elif "error" in step:
        raise Mismatch("a value instead of an error")


def check_error(found, expected, kept):
    """Compares the fields of an error; a text is its kind."""
    fields = {"kind": expected} if isinstance(expected, str) else expected
    for name, value in fields.items():
        check_value(found.get(name), value, kept, f"`{name}` of the error")


def check_value(found, expected, kept, where):
    """Compares a value, in which numbers and truth values are not the same."""
    if isinstance(expected, dict) and len(expected) == 1 and MATCHERS & expected.keys():
        [(matcher, argument)] = expected.items()
        _check_matcher(found, matcher, argument, kept, where)
    elif isinstance(expected, dict):
        _check(isinstance(found, dict), f"{where} is no object")
        _check(found.keys() == expected.keys(), f"the fields of {where} are others")
        for name in expected:
            check_value(found[name], expected[name], kept, f"`{name}` of {where}")
    elif isinstance(expected, list):
        _check(isinstance(found, list), f"{where} is no array")
        _check(len(found) == len(expected), f"the length of {where} is {len(found)}")
        for at, (one, other) in enumerate(zip(found, expected)):
            check_value(one, other, kept, f"element {at} of {where}")
    else:
        _check(_is_equal(found, expected), f"{where} is another one")


def _check_matcher(found, matcher, argument, kept, where):
    if matcher == "least":
        _check(_is_number(found) and found >= argument, f"{where} is not at least {argument}")
    elif matcher == "above":
        least = kept[argument]
        _check(_is_number(found) and found > least, f"{where} is not above {least}")
    elif matcher == "same":
        _check(_is_equal(found, kept[argument]), f"{where} is not {kept[argument]!r}")
    elif matcher == "keep":
        kept[argument] = found
    elif matcher == "members":
        _check(isinstance(found, list), f"{where} is no array")
        _check(sorted(found, key=repr) == sorted(argument, key=repr), f"{where} has other members")
    elif matcher == "has" and isinstance(argument, dict):
        _check(isinstance(found, dict), f"{where} is no object")
        for name in argument:
            check_value(found.get(name), argument[name], kept, f"`{name}` of {where}")
    elif matcher == "has":
        has = isinstance(found, str) and argument.lower() in found.lower()
        _check(has, f"{where} has no {argument!r}")
    elif matcher == "either":
        _check(any(_is_match(found, one, kept) for one in argument), f"{where} is none of these")


def _is_match(found, expected, kept):
    try:
        check_value(found, expected, kept, "")
        return True
    except Mismatch:
        return False


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_equal(one, other):
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _check(holds, text):
    if not holds:
        raise Mismatch(text)
