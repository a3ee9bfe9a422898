#!/usr/bin/env bash
# PC-SAN's automatic evaluation on ZhiHu, with its baselines. The models turn topic words into a Chinese essay of 50 to
# 120 words.
#
#   DATA=path/to/zhihu BERT=path/to/bert-base-chinese bash examples/pc_san/zhihu.sh
#
# DATA contains TrainingData.txt and TestData.txt as released with MTA-LSTM, or {train,valid,test}.{src,tgt}.
set -euo pipefail
: "${DATA:=data/zhihu}" "${SYSTEMS:=pc_san transformer mta_lstm sc_lstm ppg}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/pc_san/essays.sh
source "$(dirname "${BASH_SOURCE[0]}")/essays.sh"
need_tools
essays zhihu
