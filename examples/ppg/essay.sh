#!/usr/bin/env bash
# PPG (Wang et al., COLING 2016), a baseline in the MTA-LSTM paper, on topic-to-essay data. It writes one chunk of
# clauses for each topic.
#
#   DATA=path/to/zhihu bash examples/ppg/essay.sh
#
# DATA contains TrainingData.txt and TestData.txt as released with MTA-LSTM, or {train,valid,test}.{src,tgt}.
# OPTIMISER=adadelta uses the paper's optimiser. The default is Adam, as in MTA-LSTM's released code.
set -euo pipefail
: "${DATA:=data/zhihu}" "${SYSTEMS:=ppg}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/pc_san/essays.sh
source "$(dirname "${BASH_SOURCE[0]}")/../pc_san/essays.sh"
need_tools
essays zhihu
