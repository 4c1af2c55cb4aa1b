/**
 * The shell functions by which a job makes the mounts and files of its container. `make_scratch` makes its empty folders below $disk,
 * on the disk of the node; `make_mounts` mounts, in the mount namespace that it is called in, memory at $job/mounts, and there
 * what the container mounts as 0, 1 and so on: folders, then files. `copy_folders` puts what the image has at the paths of the folders of the
 * attempt (volume `/`) into these, beside what was fetched. Nobody outside of the namespace has them there, so nothing that is removed on the node or in the shared folder is in a volume. Files are deleted in the shared
 * folder once they are in memory.
 *
 * A folder within a volume is entered part by part. Where a part has led is asked of the kernel, and the mount is made of the present folder,
 * whatever stands at its path by then: no link that a program puts into a volume leads out of it. Where the image folder lacks
 * a mount point, it gets one in memory, and there a file takes the place of a link.
 */
export function mountFunctions(scratchDir: string | null): string {
  const parent = scratchDir === 'TMPDIR' ? '"$TMPDIR"' : `'${scratchDir ?? ''}'`;
  return `
# Goes by open folders, unlike chmod -R. As the root of a namespace, the owner needs no right to a folder.
remove_tree() { { rm -rf -- "$1" || unshare --map-root-user rm -rf -- "$1"; } 2>/dev/null; }
take_disk() {
  local parent=${parent} old
  [ -n "$parent" ] || return 1
  for old in "$parent"/longshore-scratch.*; do
    [ -d "$old" ] && [ -O "$old" ] && [ ! -L "$old" ] || continue
    # A job that was killed holds the lock of its folder no more.
    ( flock -n 8 && remove_tree "$old" ) 8<"$old"
  done
  disk=$(mktemp -d -p "$parent" longshore-scratch.XXXXXXXX) && exec 9<"$disk" && flock 9
}
make_scratch() {
  local index
  for ((index = 0; index * 4 < \${#sources[@]}; index++)); do
    [ -z "\${sources[index * 4]}" ] || continue
    [ -n "$disk" ] || take_disk || return 1
    mkdir -m 1777 -- "$disk/$index" && hold_points "$disk/$index" "\${points[index]#*:}" || return 1
  done
}
hold_points() ( # FOLDER PATH: makes in a new folder, which the container has at the path, what others are mounted at
  umask 022
  for index in "\${!points[@]}"; do
    point=\${points[index]#*:}
    case $point in "$2"/*) point=$1\${point#"$2"} ;; *) continue ;; esac
    if ((index * 4 < \${#sources[@]})); then mkdir -p -- "$point"; else mkdir -p -- "\${point%/*}" && : >"$point"; fi || exit
  done
)
copy_folders() {
  local root index path
  root=$(image_root)
  [ -n "$root" ] || return 0
  shopt -s dotglob nullglob
  for ((index = 0; index * 4 < \${#sources[@]}; index++)); do
    [ "\${sources[index * 4]}" = / ] || continue
    path=\${points[index]#*:}
    cd -P -- "$root" && enter "\${path#/}" ro || continue
    set -- ./*
    # Older and newer versions of cp know one of these each.
    [ $# = 0 ] || cp -a --update=none -- "$@" "$job/artifacts$path" || cp -a -n -- "$@" "$job/artifacts$path" || {
      head -c 65536 /dev/zero >"$job/space" || fault infrastructure 'The shared folder has no space for the files of the run'
      fault error "What the image has in '$path' cannot be beside the files of the run"
    }
  done
}
fault() { # CAUSE MESSAGE
  printf '%s %s\\n' "$1" "$2" >"$job/mount-error"
  exit 1
}
enter() { # PATH MODE PERMISSIONS: 1: missing or not to be created; 2: a link, no folder or too long; 3: not to be opened
  local rest=$1 part at is_new
  at=$(readlink /proc/self/cwd)
  while [ -n "$rest" ]; do
    part=\${rest%%/*}
    rest=\${rest#"$part"}
    rest=\${rest#/}
    is_new=
    [ "\${#part}" -le 255 ] || return 2
    [ "$2" = ro ] || ! mkdir -- "./$part" || is_new=yes
    if ! cd -P -- "./$part"; then
      [ -L "./$part" ] || [ -e "./$part" ] || return 1
      [ ! -L "./$part" ] && [ -d "./$part" ] && return 3
      return 2
    fi
    at+=/$part
    [ "$(readlink /proc/self/cwd)" = "$at" ] || return 2
    # Another program may have put another folder in its place, which stays as it is.
    [ -z "$is_new" ] || [ ! -O . ] || [ "$(stat -c %a .)" != 700 ] || [ -n "$(ls -A .)" ] || chmod "$3" .
  done
}
attach() { # MODE PLACE [FILE]: mounts the present folder there, or a file of it
  local place point options
  if [ -n "$3" ]; then : >"$2"; else mkdir -- "$2"; fi && mount --no-canonicalize --rbind "./$3" "$2" || return 1
  [ "$1" = ro ] || return 0
  place=$(readlink -f -- "$2")
  while read -r _ _ _ _ point options _; do
    printf -v point %b "$point"
    case $point in "$place" | "$place"/*) ;; *) continue ;; esac
    mount --no-canonicalize -o "remount,bind,ro\${options#r[ow]}" "$point" || return 1
  done </proc/self/mountinfo
}
has_file() { # NAME MODE: whether the present folder has the file; rw: makes it, in place of anything but a folder
  [ -L "./$1" ] || [ ! -f "./$1" ] || return 0
  # noclobber: nothing is written through a link.
  [ "$2" = rw ] && rm -f -- "./$1" && (set -C && : >"./$1")
}
has_points() { # MODE: whether the image has what the container mounts something at, $point being the last; rw: makes it
  local index=0 name
  while IFS= read -r -d '' point; do
    name=
    [ -d "$job/mounts/$index" ] || name=\${point##*/}
    point=\${point#*:/}
    cd -P -- "$image_dir" && enter "\${point%"$name"}" "$1" 755 || return
    [ -z "$name" ] || has_file "$name" "$1" || return
    index=$((index + 1))
  done <"$job/mount-points"
}
make_mounts() {
  local volume source sub_path mode index=0 place point memory=$job/mounts/image
  mount --make-rprivate / && mount -t tmpfs -o mode=700 longshore "$job/mounts" ||
    fault infrastructure 'The node of the job cannot make mounts'
  while IFS= read -r -d '' volume && IFS= read -r -d '' source && IFS= read -r -d '' sub_path && IFS= read -r -d '' mode; do
    place=$job/mounts/$index
    if [ -z "$volume" ]; then
      cd -P -- "$disk/$index" && attach rw "$place" || fault infrastructure 'The node of the job cannot mount an empty folder'
    elif [ "$volume" = / ]; then
      cd -P -- "$job/artifacts$sub_path" && attach rw "$place" || fault infrastructure 'The node of the job cannot mount the files of the run'
    else
      cd -P -- "$source" || fault infrastructure "The volume '$volume' is missing on the node of the job"
      enter "$sub_path" "$mode" 1777
      case $?$mode in
        0*) ;;
        1ro) fault error "There is no folder '$sub_path' of the volume '$volume'" ;;
        2*) fault error "A part of the folder '$sub_path' of the volume '$volume' is a link, no folder or too long" ;;
        *) fault infrastructure "The node of the job cannot open or create the folder '$sub_path' of the volume '$volume'" ;;
      esac
      attach "$mode" "$place" || fault infrastructure "The node of the job cannot mount the volume '$volume'"
    fi
    index=$((index + 1))
  done <"$job/mount-sources"
  while IFS= read -r -d '' mode; do
    case $mode in
      /*) cd -P -- "$job/artifacts" && attach ro "$job/mounts/$index" "\${mode#/}" ;;
      *) cp -- "$job/files/$index" "$job/mounts/$index" && chmod "$mode" "$job/mounts/$index" ;;
    esac || fault infrastructure 'The node of the job cannot make the files of the run'
    index=$((index + 1))
  done <"$job/file-modes"
  rm -rf -- "$job/files"
  if [ -n "$image_dir" ] && ! has_points ro; then
    cd -P -- "$image_dir" && mkdir -- "$memory" "$memory/work" && mkdir -m 755 -- "$memory/upper" &&
      mount -t overlay -o "lowerdir=.,upperdir=$memory/upper,workdir=$memory/work" longshore "$image_dir" ||
      fault error 'The image has no place for a file or mount, and the node of the job cannot add one'
    has_points rw ||
      fault error "A part of the path of a file or mount is too long, or a link or something else in the image: '/$point'"
  fi
  mount -o remount,bind,ro "$job/mounts" || fault infrastructure 'The node of the job cannot make mounts'
  cd -P -- "$job"
}
`;
}
