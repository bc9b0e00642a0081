#!/bin/sh
# Process 1 of a node, already in namespaces of its own. Gives it a root folder over the machine's own (what is written goes to the
# node's disk), then starts sshd and reaps orphans.
#   node-init.sh NAME FOLDER SHARED GROUP
# FOLDER holds: disk/ (the node's disk), files/ (laid over the root), binds (paths to show read-only), boot_id, remove (files to hide)
set -eu
name=$1 folder=$2 shared=$3 group=$4
disk=$folder/disk root=$folder/disk/root

echo 0 >"$group/cgroup.procs"
read -r pid _ </proc/self/stat   # this is still the machine's /proc: the pid as seen from outside
echo "$pid" >"$folder/init.pid"
echo "$name" >/proc/sys/kernel/hostname

mkdir -p "$disk/upper" "$disk/work" "$root" "$disk/var-tmp" "$disk/root-home"
rm -rf "$disk/tmp"; mkdir "$disk/tmp"; chmod 1777 "$disk/tmp" "$disk/var-tmp"
mount -t overlay -o "lowerdir=/,upperdir=$disk/upper,workdir=$disk/work" overlay "$root"
mount --bind "$disk/tmp" "$root/tmp"
mount --bind "$disk/var-tmp" "$root/var/tmp"
mount --bind "$disk/root-home" "$root/root"
mkdir -p "$root/home"; mount --bind "$shared" "$root/home"

mount -t tmpfs -o mode=755,size=1m dev "$root/dev"
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty "$root/dev/"
ln -s /proc/self/fd "$root/dev/fd"; ln -s fd/0 "$root/dev/stdin"; ln -s fd/1 "$root/dev/stdout"; ln -s fd/2 "$root/dev/stderr"
mkdir "$root/dev/pts" "$root/dev/shm"; ln -s pts/ptmx "$root/dev/ptmx"
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755,size=16m run "$root/run"
mkdir "$root/run/sshd"
mkdir -p "$root$shared"; mount --bind "$shared" "$root$shared"
mount --bind "$folder/boot_id" "$root/proc/sys/kernel/random/boot_id"

while IFS= read -r path; do
  mkdir -p "$root$path"; mount --bind "$path" "$root$path"; mount -o remount,bind,ro "$root$path"
done <"$folder/binds"
cp -R "$folder/files/." "$root/"
while IFS= read -r pattern; do rm -f "$root"$pattern; done <"$folder/remove"   # unquoted: it is a glob

cd "$root"; mkdir -p .outside; pivot_root . .outside
cd /; umount -l /.outside; rmdir /.outside
env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /usr/sbin/sshd -E /run/sshd.log
set +e
while :; do sleep infinity & wait $!; done
