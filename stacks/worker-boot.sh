#!/bin/bash
# First boot of a worker's instance, as root. stacks/workers.ts prepends its settings: FLEET, GPU, PORT, SERVER_MODEL, SERVER_PORT, NODE_VERSION,
# ARCHIVE, LOCK and their hashes, AWS_REGION, MGRPO_TABLE, MGRPO_BUCKET, TOKEN_PARAMETER, KEYS.
#
#   booting --checks pass--> server, if the fleet has one --it answers--> worker under systemd, one run after another
#
#   a boot step fails; a reboot interrupts the boot; the server does not answer; server or worker fails five times in ten minutes: the
#     instance terminates itself and logs the reason
#   no run needs the worker: the instance terminates itself. In both cases the group, if it can be reached, starts no replacement
#   spot notice: the worker drains; the group starts another instance
#   tick sets the group to 0: the worker drains; AWS terminates the instance
set -euo pipefail
export AWS_REGION AWS_DEFAULT_REGION="$AWS_REGION" HOME=/root
PROGRAM=/opt/mgrpo/program
NODE=/opt/node/bin
mkdir -p /etc/mgrpo "$PROGRAM" /opt/node

# What this script and the units below share: metadata (IMDSv2), the log, and how an instance terminates itself.
{
  printf "%s='%s'\n" FLEET "$FLEET" MGRPO_BUCKET "$MGRPO_BUCKET"
  echo "export AWS_REGION='$AWS_REGION' AWS_DEFAULT_REGION='$AWS_REGION'"
  cat <<'SHARED'
metadata() {
  local token
  token=$(curl -fsS --max-time 10 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)
  curl -fsS --max-time 10 -H "X-aws-ec2-metadata-token: $token" "http://169.254.169.254/latest/meta-data/$1"
}
ship_log() {
  {
    cat /var/log/cloud-init-output.log
    journalctl --quiet -u mgrpo-worker -u mgrpo-server -o cat
    if [ -e /run/mgrpo-end.log ]; then cat /run/mgrpo-end.log; fi
  } |
    aws s3 cp --quiet - "s3://$MGRPO_BUCKET/logs/$FLEET/$(metadata instance-id).log"
}
# The reason is the last line of the shipped log. Its file is in memory: on a full disk, `set -e` would end the boot here. If the Auto Scaling
# group cannot be reached, a shutdown terminates the instance; the group then replaces it.
end_instance() {
  printf '{"level":"error","what":"instance ended","fleet":"%s","reason":"%s"}\n' "$FLEET" "$1" > /run/mgrpo-end.log
  ship_log || true
  aws autoscaling terminate-instance-in-auto-scaling-group --should-decrement-desired-capacity \
    --instance-id "$(metadata instance-id)" || shutdown -h now
  exit 0
}
# Terminates the instance for the reason with which mgrpo-end@ is started.
end_because() {
  case "$1" in
    done) end_instance "no run needs the worker" ;;
    worker-failed) end_instance "the worker failed five times in ten minutes" ;;
    server-failed) end_instance "the server failed five times in ten minutes" ;;
    rebooted) end_instance "it was rebooted during its first boot" ;;
  esac
}
SHARED
} > /opt/mgrpo/shared.sh
# shellcheck source=/dev/null
. /opt/mgrpo/shared.sh
trap 'end_instance "boot failed at line $LINENO"' ERR

# This script runs once: after a reboot before its end, nothing would start the worker. Enabled, not started: it runs in the next boot.
cat > /etc/systemd/system/mgrpo-unfinished.service <<'UNIT'
[Unit]
Description=ends an instance that was rebooted during its first boot
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
ExecStart=/bin/bash -c '. /opt/mgrpo/shared.sh; end_because rebooted'
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable mgrpo-unfinished

ADDRESS=$(metadata local-ipv4)
if [ "$GPU" = yes ]; then
  timeout 60 nvidia-smi -L || end_instance "no NVIDIA driver: nvidia-smi does not run on this image"
fi

# Node.js, verified by its published checksums. Each attempt at a download has its own time limit: a stalled one would leave a paid instance
# without a worker.
cd /tmp
NODE_FILE="node-v$NODE_VERSION-linux-x64.tar.xz"
curl -fsSO --retry 5 --connect-timeout 20 --max-time 300 "https://nodejs.org/dist/v$NODE_VERSION/$NODE_FILE"
curl -fsSO --retry 5 --connect-timeout 20 --max-time 300 "https://nodejs.org/dist/v$NODE_VERSION/SHASUMS256.txt"
grep " $NODE_FILE\$" SHASUMS256.txt | sha256sum -c -
tar -xJf "$NODE_FILE" -C /opt/node --strip-components=1
export PATH="$NODE:$PATH"

# The program: the release archive, and exactly the dependencies of its lock file. No package needs its install script.
aws s3 cp --quiet "s3://$MGRPO_BUCKET/$ARCHIVE" mgrpo.tgz
aws s3 cp --quiet "s3://$MGRPO_BUCKET/$LOCK" package-lock.json
echo "$ARCHIVE_SHA256  mgrpo.tgz" | sha256sum -c -
echo "$LOCK_SHA256  package-lock.json" | sha256sum -c -
tar -xzf mgrpo.tgz -C "$PROGRAM" --strip-components=1
cp package-lock.json "$PROGRAM/"
cd "$PROGRAM"
npm ci --omit=dev --ignore-scripts --no-audit --no-fund
COMPLAINT=$(timeout 120 node dist/cli/mgrpo.js doctor) || end_instance "doctor: $(grep -m 1 broken <<< "$COMPLAINT" | tr -d '"\\' || echo "no result")"

# The worker's environment. Secrets come from encrypted parameters: KEYS lists `<variable>=<parameter>` pairs; unset secrets are left out.
secret() { aws ssm get-parameter --with-decryption --name "$1" --query Parameter.Value --output text; }
# systemd reads backslashes and quotes in a value as a shell does in double quotes.
setting() {
  local value=${2//\\/\\\\}
  printf '%s="%s"\n' "$1" "${value//\"/\\\"}"
}
TOKEN=$(secret "$TOKEN_PARAMETER")
(
  umask 077
  {
    for NAME in AWS_REGION MGRPO_TABLE MGRPO_BUCKET FLEET ADDRESS PORT; do setting "$NAME" "${!NAME}"; done
    setting MGRPO_WORKER_TOKEN "$TOKEN"
    for KEY in $KEYS; do
      VALUE=$(secret "${KEY#*=}")
      [ "$VALUE" = unset ] || setting "${KEY%%=*}" "$VALUE"
    done
  } > /etc/mgrpo/worker.env
)
useradd --system --home-dir "$PROGRAM" mgrpo

cat > /etc/systemd/system/mgrpo-worker.service <<'UNIT'
[Unit]
Description=mgrpo worker
After=network-online.target
StartLimitIntervalSec=600
StartLimitBurst=5
OnSuccess=mgrpo-end@done.service
OnFailure=mgrpo-end@worker-failed.service
[Service]
User=mgrpo
WorkingDirectory=/opt/mgrpo/program
EnvironmentFile=/etc/mgrpo/worker.env
# For base models: the program's folder belongs to root.
CacheDirectory=mgrpo
Environment=MGRPO_CACHE=%C/mgrpo HF_HOME=%C/mgrpo/huggingface
# Recipes of the user's project, if one is deployed.
Environment=MGRPO_PROJECT=/opt/mgrpo/program/dist/project
ExecStart=/opt/node/bin/node dist/gpu-workers/worker.js --fleet ${FLEET} --host ${ADDRESS} --port ${PORT} --url http://${ADDRESS}:${PORT}
ExecStopPost=+/bin/bash -c '. /opt/mgrpo/shared.sh; ship_log || true'
Restart=on-failure
# Otherwise systemd 254 and later start OnFailure= before every restart, not after the last.
RestartMode=direct
RestartSec=2
KillMode=mixed
TimeoutStopSec=90
[Install]
WantedBy=multi-user.target
UNIT

cat > /etc/systemd/system/mgrpo-end@.service <<'UNIT'
[Unit]
Description=ends this instance: %i
ConditionPathExists=!/run/mgrpo-interrupted
[Service]
Type=oneshot
ExecStart=/bin/bash -c '. /opt/mgrpo/shared.sh; end_because %i'
UNIT

# A spot instance gets two minutes' notice: the worker drains and releases its claims.
cat > /etc/systemd/system/mgrpo-interruption.service <<'UNIT'
[Unit]
Description=drains the worker when this spot instance is about to be interrupted
[Service]
ExecStart=/bin/bash -c '. /opt/mgrpo/shared.sh; until metadata spot/instance-action 2>/dev/null; do sleep 5; done; touch /run/mgrpo-interrupted; systemctl stop mgrpo-worker'
Restart=on-failure
[Install]
WantedBy=multi-user.target
UNIT

cat > /etc/systemd/system/mgrpo-log.service <<'UNIT'
[Unit]
Description=copies the worker's log to the bucket
[Service]
Type=oneshot
ExecStart=/bin/bash -c '. /opt/mgrpo/shared.sh; ship_log'
UNIT
cat > /etc/systemd/system/mgrpo-log.timer <<'UNIT'
[Timer]
OnActiveSec=1min
OnUnitActiveSec=5min
[Install]
WantedBy=timers.target
UNIT

# SkyRL's Tinker server, if the fleet has one. It checks no key: it listens on the loopback address only. Its user cannot read the worker's
# environment or get the instance's credentials. uv is verified by its hash; packages are resolved as of a fixed date.
UV=uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
UV_URL=https://files.pythonhosted.org/packages/3d/aa/26d64642d808de4a652579ef950d7cd2d37f080a8babf9c67c6b75fc4c3f/$UV
UV_SHA256=d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19
SERVER_WAITS=60
if [ -n "$SERVER_MODEL" ]; then
  mkdir -p /opt/skyrl/bin
  cd /opt/skyrl
  curl -fsSO --retry 5 --connect-timeout 20 --max-time 300 "$UV_URL"
  echo "$UV_SHA256  $UV" | sha256sum -c -
  python3 -m zipfile -e "$UV" wheel
  install -m 755 wheel/uv-*.data/scripts/uv bin/uv
  cat > pyproject.toml <<'PROJECT'
[project]
name = "skyrl-server"
version = "0"
requires-python = "==3.12.*"
dependencies = ["skyrl==0.3.0", "transformers==5.8.0"]
[project.optional-dependencies]
tinker = ["skyrl[tinker]==0.3.0", "tinker==0.24.1"]
jax = ["skyrl[jax,gpu]==0.3.0", "jax==0.12.0.1", "flax==0.12.12", "optax==0.2.8"]
[tool.uv]
exclude-newer = "2026-11-20T00:00:00Z"
PROJECT
  useradd --system --home-dir /opt/skyrl skyrl
  chown -R skyrl /opt/skyrl
  cat > /etc/systemd/system/mgrpo-server.service <<UNIT
[Unit]
Description=SkyRL's Tinker server
After=network-online.target
StartLimitIntervalSec=600
StartLimitBurst=5
OnFailure=mgrpo-end@server-failed.service
[Service]
User=skyrl
WorkingDirectory=/opt/skyrl
Environment=HOME=/opt/skyrl PATH=/opt/skyrl/bin:/usr/bin:/bin UV_PYTHON_DOWNLOADS=never
ExecStartPre=/opt/skyrl/bin/uv sync --extra tinker --extra jax
ExecStart=/opt/skyrl/bin/uv run --no-sync -m skyrl.tinker.api --base-model $SERVER_MODEL --backend jax --host 127.0.0.1 --port $SERVER_PORT --backend-config '{"max_lora_adapters":24,"max_lora_rank":32}' --database-url sqlite:////opt/skyrl/tinker.db --checkpoints-base /opt/skyrl/checkpoints
TimeoutStartSec=1800
Restart=on-failure
RestartMode=direct
RestartSec=5
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=/opt/skyrl
PrivateTmp=yes
ProtectHome=yes
CapabilityBoundingSet=
IPAddressDeny=169.254.169.254
[Install]
WantedBy=multi-user.target
UNIT
  systemctl daemon-reload
  # It also starts after a reboot: the agent's versions are still on its disk.
  systemctl enable mgrpo-server
  systemctl start mgrpo-server || end_instance "the server cannot be installed: its output is in this log"
  until curl -fsS --max-time 10 -o /dev/null "http://127.0.0.1:$SERVER_PORT/api/v1/healthz"; do
    [ $((SERVER_WAITS--)) -gt 0 ] || end_instance "the server does not answer on port $SERVER_PORT"
    sleep 5
  done
fi

systemctl daemon-reload
systemctl enable --now mgrpo-worker mgrpo-interruption mgrpo-log.timer
systemctl disable mgrpo-unfinished
