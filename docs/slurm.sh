#!/bin/bash
#SBATCH --array=1-16
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#
# Do a campaign as a job array, a part of its shards a job:  sbatch slurm.sh campaign.toml
# Each job is told to stop two minutes before its time is over, commits what it has, and is requeued until it is done.

"${PYTHON:-python}" -m fastbm run "$1" --quiet --part "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" &
part=$!
trap 'kill -TERM $part' TERM
wait $part
code=$?
while [ $code -gt 128 ] && kill -0 $part 2>/dev/null; do # a signal ends the wait, and not yet the part
    wait $part
    code=$?
done
if [[ $code == 3 || $code == 143 ]] && [ -n "$SLURM_JOB_ID" ]; then # stopped, and can go on; or before it had begun
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
exit $code
