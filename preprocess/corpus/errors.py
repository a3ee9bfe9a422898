"""The error for a mistake of the scripts' user: one clear sentence, exit status 2."""

from wean_fairseq.errors import UserError as InputError  # # noqa: F401 - the name that the scripts use
