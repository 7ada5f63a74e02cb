"""Codes about the run itself: what kept something from being measured."""

from __future__ import annotations

from gdrcheck.findings.model import Entry

ENTRIES = (
    Entry(
        code="RUN-NO-RESULT",
        title="A node sent no result, or only a part of it",
        meaning=(
            "The run expected results of this node and has none, or the node stopped in the "
            "middle. What was not measured is not passed: the verdict is INCOMPLETE at best."
        ),
        evidence="The node's state as the playbook saw it, its last event, its supervisor's log.",
        causes=(
            "The node does not answer ssh, or went down during the run.",
            "The container did not start, was killed (out of memory), or hit its deadline.",
            "The disk filled up, so the results could not be written.",
        ),
        repair=(
            "Reach the node: `ansible -i INVENTORY NODE -m ansible.builtin.ping`.",
            "Read nodes/NODE/supervisor.log in the results, and on the node "
            "`journalctl --since -1h`.",
            "Repair the node and repeat: "
            "`ansible-playbook -i INVENTORY validate.yml --limit NODE,PARTNER`.",
        ),
        source="gdrcheck's own rule: nothing measured is not a pass",
    ),
    Entry(
        code="RUN-PROFILE-LITTLE",
        title="The profile promises too little",
        meaning=(
            "The profile leaves out some of what a verdict needs: GPUs and their model, rails, "
            "port rate, link layer. A machine of which nothing is expected cannot pass, so the "
            "verdict is INCOMPLETE."
        ),
        evidence="The keys that are missing.",
        causes=("The profile is a draft, or was copied without being filled in.",),
        repair=(
            "Write down what was bought; `gdrcheck profile schema` lists every key.",
            "Check the file: `gdrcheck profile check FILE`.",
        ),
        source="gdrcheck's own rule: nothing measured is not a pass",
    ),
    Entry(
        code="RUN-NO-IMAGE",
        title="The node does not have the image",
        meaning=(
            "gdrcheck_image_source is present, which transfers nothing, and the image is not on "
            "the node, or could not be fetched or loaded from where it should come from."
        ),
        evidence="The name or id of the image, and what the engine said.",
        causes=(
            "The image was never sent to this node.",
            "It was loaded for another user: rootless engines keep images for each user.",
            "The name or tag is mistyped.",
            "The registry does not answer, or wants a login.",
        ),
        repair=(
            "List what is there, as root: `podman images` (or `docker images`).",
            "Let the playbook send it: gdrcheck_image_source archive, with gdrcheck_image_archive.",
            "Or let the node pull it: gdrcheck_image_source registry; try `podman pull IMAGE` "
            "(or `docker pull IMAGE`) first.",
        ),
        source="podman-images(1), podman-load(1), podman-pull(1)",
    ),
    Entry(
        code="RUN-IMAGE-DIFFERS",
        title="The nodes do not run the same image",
        meaning=(
            "Two nodes of one run have different container images under the same name. Their "
            "checks may differ, so their results cannot be compared and they do not talk to each "
            "other."
        ),
        evidence="The image id of each node.",
        causes=(
            "The image was rebuilt, and image_source is present, so that nothing was transferred.",
            "A tag in the registry moved between two nodes' pulls.",
            "Nodes of different architectures.",
        ),
        repair=(
            "Compare: `podman images --no-trunc`, or `docker images --no-trunc`.",
            "Deploy one image everywhere: gdrcheck_image_source archive, or registry with the "
            "image named by digest.",
        ),
        source="OCI Image Format Specification (image id, digest)",
    ),
    Entry(
        code="RUN-LOCKED",
        title="Another run holds the node",
        meaning=(
            "The lock of this node is held by another run that is still going. Two runs at once "
            "would disturb each other's results."
        ),
        evidence="The lock file and the run id that it names.",
        causes=(
            "Somebody else validates the same node at this moment.",
            "An earlier run was interrupted; its containers end by themselves at their deadline.",
        ),
        repair=(
            "See who it is: `podman ps --filter name=gdrcheck`, or the same with docker.",
            "Wait for it, or stop that container if nobody needs it: `podman rm -f NAME`, or the "
            "same with docker.",
        ),
        source="flock(2)",
    ),
    Entry(
        code="RUN-GPU-BUSY",
        title="Processes are using the node's GPUs",
        meaning=(
            "The driver reports compute processes on this node. The checks use GPU memory and "
            "the NICs at full rate, which would disturb a job and be disturbed by it."
        ),
        evidence="Process ids, names and memory as the driver reports them.",
        causes=(
            "The node was not drained.",
            "A process of an earlier job is left over.",
            "A monitoring agent keeps a CUDA context open.",
        ),
        repair=(
            "List: `nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv`.",
            "Drain the node, or end the process that was left over.",
            "If it is harmless, set `gdrcheck_allow_gpu_processes: true` for this node by name.",
        ),
        source="nvidia-smi's manual, NVML API reference (nvmlDeviceGetComputeRunningProcesses)",
    ),
    Entry(
        code="RUN-NO-ENGINE",
        title="The node has no usable container engine",
        meaning="Neither podman nor docker answers on this node, or not the one asked for.",
        evidence="The commands that were tried and what they said.",
        causes=(
            "No engine is installed.",
            "docker is installed, but its service does not run.",
            "gdrcheck_engine names an engine that this node does not have.",
            "The user may not become root on the node.",
        ),
        repair=(
            "Install podman (or docker) from the distribution's packages.",
            "Start the service: `systemctl enable --now docker`.",
            "Set `gdrcheck_engine: auto`, or the engine that is there.",
        ),
        source="podman(1), docker(1)",
    ),
    Entry(
        code="RUN-NO-DEVICES",
        title="The node has no /dev/infiniband",
        meaning=(
            "The profile promises rails, but the node has no verbs character devices, so that none "
            "can be passed to the container."
        ),
        evidence="What /dev/infiniband and /sys/class/infiniband hold.",
        causes=(
            "The module ib_uverbs is not loaded.",
            "No RDMA driver found a device.",
        ),
        repair=(
            "Load it: `modprobe ib_uverbs`, then `ls /dev/infiniband`.",
            "If /sys/class/infiniband is empty too, load the NIC's RDMA driver, for example "
            "`modprobe mlx5_ib`; with Soft-RoCE: `rdma link add NAME type rxe netdev IFACE`.",
            "Make it permanent: `echo ib_uverbs > /etc/modules-load.d/ib_uverbs.conf`.",
        ),
        source="Linux Documentation/infiniband/user_verbs.rst, rdma-link(8)",
    ),
    Entry(
        code="RUN-NO-RDMACM",
        title="The node has no /dev/infiniband/rdma_cm",
        meaning=(
            "The verbs devices are there, but the connection manager's device is not, so that "
            "programs that connect by IP address cannot use RDMA."
        ),
        evidence="What /dev/infiniband holds.",
        causes=("The module rdma_ucm is not loaded.",),
        repair=(
            "Load it: `modprobe rdma_ucm`, then `ls -l /dev/infiniband/rdma_cm`.",
            "Make it permanent: `echo rdma_ucm > /etc/modules-load.d/rdma_ucm.conf`.",
        ),
        source="rdma_cm(7), Linux drivers/infiniband/core/ucma.c",
    ),
    Entry(
        code="RUN-DISK-FULL",
        title="The node has too little free disk space",
        meaning=(
            "The file system that must hold the image or the results has less free space than "
            "gdrcheck_min_free_bytes."
        ),
        evidence="The path, its free bytes, and what was asked for.",
        causes=(
            "Old images or logs fill the disk.",
            "The state directory or the engine's storage lies on a small file system.",
        ),
        repair=(
            "See what is there: `df -h`; `podman system df` (or `docker system df`).",
            "Remove what is not needed: `podman image prune` (or `docker image prune`).",
            "Point gdrcheck_state_dir at a larger file system.",
        ),
        source="statvfs(3), podman-system-df(1)",
    ),
    Entry(
        code="RUN-ADDRESS-UNREACHABLE",
        title="Nodes do not reach each other's channel address",
        meaning=(
            "Another node cannot open a TCP connection to this node's gdrcheck_address and "
            "gdrcheck_port, or the address is not one of this node's own. No pair can be "
            "measured."
        ),
        evidence="Address, port, the node that tried, and the error.",
        causes=(
            "A firewall blocks the port.",
            "gdrcheck_address is an address of another node, or one that only the controller "
            "reaches.",
            "The node's name resolves to a loopback address (127.0.1.1).",
            "Another program listens on the port.",
        ),
        repair=(
            "Compare with the node's addresses: `ip -brief address`.",
            "Set gdrcheck_address to an address that the other nodes reach.",
            "See who listens there: `ss -ltnp | grep PORT`.",
            "Open the port between the nodes (`nft list ruleset`, or `iptables -S`), or choose "
            "another with gdrcheck_port.",
        ),
        source="connect(2), bind(2), ss(8)",
    ),
    Entry(
        code="RUN-PEER-NEVER-ARRIVED",
        title="A pod of the Job never arrived",
        meaning=(
            "Index 0 of the Kubernetes Job waited for the pods of all indexes, and this one did "
            "not come. Its node is not known, so it is named after its index. The others were "
            "measured without it: the verdict is INCOMPLETE at best."
        ),
        evidence=(
            "How long index 0 waited, and whether somebody came who did not prove the secret."
        ),
        causes=(
            "Fewer nodes fit the Job than it has completions: taken, tainted, or out of GPUs or "
            "RDMA resources.",
            "The image could not be pulled there, or not within the time.",
            "The pod cannot reach index 0: name resolution, a network policy, or a firewall on the "
            "port of the Job.",
            "It has another secret, as a pod that is left over from an earlier Job does.",
        ),
        repair=(
            "See where the pods are: `kubectl get pods -o wide`.",
            "Read why one waits: `kubectl describe pod POD`.",
            "Ask for as many pods as there are free nodes, or give index 0 more patience "
            "(GDRCHECK_ARRIVAL_S), and start the Job again.",
        ),
        source="gdrcheck's own rule: nothing measured is not a pass",
    ),
    Entry(
        code="RUN-NO-TOOLKIT",
        title="The engine cannot give GPUs to a container",
        meaning=(
            "The profile promises GPUs, but the engine knows no CDI device nvidia.com/gpu on this "
            "node, so that no GPU can be passed to the container."
        ),
        evidence="The CDI specifications in /etc/cdi and /var/run/cdi, and the engine's version.",
        causes=(
            "The container toolkit is not installed.",
            "The specification was not generated, or is older than the driver.",
            "The GPU driver is not loaded.",
            "The engine is too old for CDI, or it is not switched on.",
        ),
        repair=(
            "Check the driver: `nvidia-smi`.",
            "Install nvidia-container-toolkit; from 1.18 on it writes the specification by itself.",
            "Generate the specification: `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`.",
            "List what the engine will see: `nvidia-ctk cdi list`.",
            "With docker before 28.2 switch CDI on: `nvidia-ctk runtime configure "
            "--runtime=docker --cdi.enabled`, then `systemctl restart docker`.",
        ),
        source="Container Device Interface specification, nvidia-ctk's manual",
    ),
    Entry(
        code="RUN-WAIVER-EXPIRED",
        title="A waiver has expired",
        meaning=(
            "The profile accepts a finding until a day that has passed. The finding counts again, "
            "and the waiver has to be dealt with."
        ),
        evidence="Code, place, reason and last day of the waiver.",
        causes=("The repair that the waiver was waiting for is overdue, or was done long ago.",),
        repair=(
            "Repair the fault and remove the waiver from the profile.",
            "Or decide again, and write a new day into until.",
        ),
        source="gdrcheck's own rule: a waiver has a reason and an end",
    ),
)
