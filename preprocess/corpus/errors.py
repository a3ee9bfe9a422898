"""What the scripts raise for a mistake of their user: one clear sentence, exit status 2."""


class InputError(ValueError):
    """Something about the input, the output or the options that their owner can mend."""
