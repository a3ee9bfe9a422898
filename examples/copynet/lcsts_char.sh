#!/usr/bin/env bash
# CopyNet's Table 3 on LCSTS (Chinese short text summarisation), as characters and with beam 10. The paper does not
# state the beam.
#
#   DATA=path/to/LCSTS bash examples/copynet/lcsts_char.sh
SETTING=copynet-characters
# shellcheck source=examples/copynet/lcsts.sh
source "$(dirname "${BASH_SOURCE[0]}")/lcsts.sh"
