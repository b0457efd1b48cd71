# Read by bash before the command. Without it `pytest | tail -5` ends with 0 and nothing says that pytest failed. Stages
# ended by SIGPIPE (141), as in `yes | head -1`, are no failure.
unset BASH_ENV
# Where the shell is in the end, if it went elsewhere.
pawl_start=$PWD pawl_folder_file=$PAWL_CALL.cwd
trap 'pawl_codes=${PIPESTATUS[*]}
[ "$PWD" = "$pawl_start" ] || pwd -P >"$pawl_folder_file"
case ${pawl_codes//141 /} in *[1-9]*" "*) echo "[exit codes of the last pipeline: $pawl_codes]" >&2 ;; esac' EXIT
