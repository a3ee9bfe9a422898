#!/usr/bin/env bash
# CopyNet's Table 3 on LCSTS (Chinese short text summarisation), as words of jieba and with beam 10.
#
#   DATA=path/to/LCSTS bash examples/copynet/lcsts_word.sh
SETTING=copynet-words
# shellcheck source=examples/copynet/lcsts.sh
source "$(dirname "${BASH_SOURCE[0]}")/lcsts.sh"
