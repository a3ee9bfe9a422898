#!/usr/bin/env bash
# MTA-LSTM (Feng et al., IJCAI 2018) and its ablations TAV and TAT on topic-to-essay data.
#
#   DATA=path/to/zhihu bash examples/mta_lstm/essay.sh
#
# DATA contains TrainingData.txt and TestData.txt as released with MTA-LSTM, or {train,valid,test}.{src,tgt}.
# OPTIMISER=adadelta uses the paper's optimiser. The default is Adam, as in MTA-LSTM's released code.
set -euo pipefail
: "${DATA:=data/zhihu}" "${SYSTEMS:=tav_lstm tat_lstm mta_lstm}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/pc_san/essays.sh
source "$(dirname "${BASH_SOURCE[0]}")/../pc_san/essays.sh"
need_tools
essays zhihu
