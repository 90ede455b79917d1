#!/usr/bin/env bash
# Seven agents of the probe on one machine, each with a network namespace and a disk of its own, of
# which one may be loaded: the study of synchrony in small. Needs root, iproute2, util-linux, e2fsprogs
# and, for the loaded disk, fio; changes nothing that outlives it but the folder that it is given.
#
#   tests/reproduction/synchrony.sh BINARY idle FOLDER [MINUTES]
#   tests/reproduction/synchrony.sh BINARY cpu  FOLDER [MINUTES]   node n4 has a fifth of a processor
#   tests/reproduction/synchrony.sh BINARY disk FOLDER [MINUTES]   the disk of n4 is good for 50 writes a
#                                                                  second, of which others want all
#
# The measurements are in FOLDER/data then; `BINARY probe analyze FOLDER/data` looks at them.
set -euo pipefail

readonly NODES=7 LOADED=4 DISK_MIB=256
# Version 2 of control groups, and version 1.
readonly GROUPS_OF_QUOTA=(/sys/fs/cgroup/claret-synchrony /sys/fs/cgroup/cpu/claret-synchrony
    /sys/fs/cgroup/blkio/claret-synchrony)

usage() {
    sed -n '2,/^set/ s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

# Everything below runs where only this script sees its mounts, networks and processes, so that the
# kernel takes all of them back when it ends, however it ends.
if [[ ${1:-} != inside ]]; then
    [[ $# -ge 3 && $# -le 4 && -x $1 && $2 =~ ^(idle|cpu|disk)$ && ${4:-30} =~ ^[1-9][0-9]*$ ]] || usage
    [[ $(id -u) == 0 ]] || { echo "synchrony.sh: only root may make networks and mounts" >&2; exit 2; }
    for program in ip unshare mkfs.ext4 losetup $([[ $2 == disk ]] && echo fio); do
        command -v "$program" > /dev/null || { echo "synchrony.sh: $program is missing" >&2; exit 2; }
    done
    mkdir -p "$3"
    [[ -z $(ls -A "$3") ]] || { echo "synchrony.sh: $3 is not empty" >&2; exit 2; }
    binary=$(realpath "$1") folder=$(realpath "$3")
    trap 'rmdir "${GROUPS_OF_QUOTA[@]}" 2> /dev/null' EXIT
    unshare --mount --net --pid --fork --kill-child --mount-proc \
        "$(realpath "$0")" inside "$binary" "$2" "$folder" "${4:-30}"
    exit
fi
# The first process of its own table of processes has to say that it listens to signals.
trap 'exit 130' INT TERM
readonly BINARY=$2 LOAD=$3 FOLDER=$4 MINUTES=$5
readonly SECONDS_OF_RUN=$((MINUTES * 60))

# A switch with a cable to each node.
make_network() {
    mount -t tmpfs none /run
    mkdir -p /run/netns
    ip link add switch type bridge
    ip link set switch up
    for node in $(seq $NODES); do
        ip netns add "n$node"
        ip link add "port$node" type veth peer name eth0 netns "n$node"
        ip link set "port$node" master switch up
        ip -n "n$node" link set lo up
        ip -n "n$node" address add "10.77.0.$node/24" dev eth0
        ip -n "n$node" link set eth0 up
        echo "n$node 10.77.0.$node:7400" >> "$FOLDER/peers"
    done
}

# A file system for each node, on a block device of its own. The mount detaches the device at its end.
make_disks() {
    for node in $(seq $NODES); do
        dd if=/dev/zero of="$FOLDER/disk$node" bs=1M count=$DISK_MIB status=none
        mkfs.ext4 -q "$FOLDER/disk$node"
        mkdir "$FOLDER/n$node"
        mount -o loop "$FOLDER/disk$node" "$FOLDER/n$node"
    done
}

disk_of() {
    basename "$(findmnt -n -o SOURCE "$FOLDER/n$1")"
}

# A control group in which a processor runs for 20 of each 100 ms, or the disk of the loaded node takes
# 50 writes a second; prints its file of processes.
make_quota() {
    local group device
    device=$(findmnt -n -o MAJ:MIN "$FOLDER/n$LOADED")
    if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
        group=${GROUPS_OF_QUOTA[0]}
        mkdir -p "$group"
        case $LOAD in
            cpu) echo "20000 100000" > "$group/cpu.max" ;;
            disk) echo "$device wiops=50" > "$group/io.max" ;;
        esac
    elif [[ $LOAD == cpu ]]; then
        group=${GROUPS_OF_QUOTA[1]}
        mkdir -p "$group"
        echo 100000 > "$group/cpu.cfs_period_us"
        echo 20000 > "$group/cpu.cfs_quota_us"
    else
        group=${GROUPS_OF_QUOTA[2]}
        mkdir -p "$group"
        echo "$device 50" > "$group/blkio.throttle.write_iops_device"
    fi
    echo "$group/cgroup.procs"
}

# Who else wants what the loaded node has little of.
load() {
    case $LOAD in
        cpu) exec sha256sum /dev/zero > /dev/null ;;
        disk)
            exec fio --name=load --directory="$FOLDER/n$LOADED" --rw=randwrite --bs=64k --size=64m \
                --numjobs=2 --fdatasync=1 --time_based --runtime=$((SECONDS_OF_RUN + 10)) \
                --output="$FOLDER/fio.log"
            ;;
    esac
}

start_agents() {
    for node in $(seq $NODES); do
        (
            if [[ $LOAD != idle && $node == "$LOADED" ]]; then
                processes=$(make_quota)
                echo $BASHPID > "$processes"
                load &
            fi
            exec ip netns exec "n$node" "$BINARY" probe agent --peers "$FOLDER/peers" \
                --node "n$node" --dir "$FOLDER/n$node/data" --disk "$(disk_of "$node")" \
                --deployment "$LOAD" --seconds "$SECONDS_OF_RUN" --json \
                > "$FOLDER/n$node.json" 2> "$FOLDER/n$node.log"
        ) &
        agents+=($!)
    done
}

exit_with_logs() {
    echo "synchrony.sh: an agent failed, see $FOLDER/n*.log" >&2
    exit 1
}

agents=()
make_network
make_disks
start_agents
for ((minute = 1; minute <= MINUTES; minute++)); do
    sleep 60
    # None ends by itself before its time.
    [[ $minute == "$MINUTES" ]] || kill -0 "${agents[@]}" 2> /dev/null || exit_with_logs
    echo "$LOAD: minute $minute of $MINUTES"
done
failed=0
for agent in "${agents[@]}"; do
    wait "$agent" || failed=1
done
mkdir "$FOLDER/data"
for node in $(seq $NODES); do
    cp -r "$FOLDER/n$node/data/." "$FOLDER/data/"
    umount "$FOLDER/n$node" 2> /dev/null || umount --lazy "$FOLDER/n$node"
    rm -r "$FOLDER/disk$node" "$FOLDER/n$node"
done
[[ $failed == 0 ]] || exit_with_logs
echo "$FOLDER/data has the measurements"
