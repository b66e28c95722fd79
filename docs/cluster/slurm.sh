#!/bin/bash
# SPDX-License-Identifier: MIT
# Filters a folder of images on a Slurm cluster whose nodes share the folders: an array of 8 tasks, each of which does a
# part.
# usage: sbatch slurm.sh PHOTOS RESULTS FILTER [OPTION OF gconv...]
#        sbatch --array=1-100 --cpus-per-task=4 --mem=8G slurm.sh photos/ sharp/ unsharp
#SBATCH --job-name=gconv
#SBATCH --array=1-8
#SBATCH --cpus-per-task=1
#SBATCH --mem=1G
#SBATCH --requeue
#SBATCH --output=gconv-%A-%a.log
#SBATCH --open-mode=append
set -euo pipefail
photos=$1 results=$2 filter=$3
shift 3
# --resume: a task that Slurm stops and runs again goes on where it was. --memory holds to 15%: so it is told less.
exec gconv -i "$photos" -r -f "$filter" -o "$results" --resume --shard auto --threads "$SLURM_CPUS_PER_TASK" \
  --memory $((${SLURM_MEM_PER_NODE:-1024} * 4 / 5))M "$@"
