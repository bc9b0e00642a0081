"""Variables that other launchers and schedulers leave behind, and what each would do to a run.

They get into a node's environment when rankdeck is started inside another job, or when a start-up file
exports them. Frameworks choose their mode by the mere presence of such names, so a run would hang, split into
many worlds of one, or be slow without a word. They are taken out and shown.

What stays: the job itself (`SLURM_JOB_*`), which GPUs may be used (`CUDA_VISIBLE_DEVICES` and its like), and
settings of libraries (`NCCL_*`, `UCX_*`, `I_MPI_*` but for its launcher's).

Sources, for each group: torch/distributed/{rendezvous,argparse_util}.py and elastic/agent (PyTorch); the
environment plug-ins of Lightning (fabric/plugins/environments); deepspeed/comm/comm.py; accelerate/state.py
and utils/environment.py; horovod/runner/common/util/env.py; jax/_src/clusters; tensorflow's cluster
resolvers; the manual pages of srun, of Open MPI, PRRTE, MPICH hydra, Intel MPI, MVAPICH, and of LSF, Flux and
Cray PALS.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leftover:
    """A glob over variable names (case matters) and why what matches is removed."""

    pattern: str
    why: str


_RANKS = "says which rank this is in another launcher's world"
_TORCH = "left by another PyTorch launcher"
_PET = "torchrun takes its flags' defaults from it"
_ELASTIC = "left by another torchrun; tells a rank to use that one's store"
_OMPI = "left by Open MPI; frameworks take it for an mpirun of theirs"
_PMI = "left by an MPI process manager; frameworks take it for an MPI world of theirs"
_INTEL = "says how another job's mpirun starts its daemons"
_SLURM = "of an srun step; frameworks take their rank and world from it"
_SLURM_BIND = "of another srun step; binds all ranks to that step's CPUs or memory"
_HOROVOD = "left by horovodrun; sets rank or controller of another world"
_TF = "the cluster of another TensorFlow job"
_JAX = "the coordinator of another JAX job"
_ACCELERATE = "left by accelerate launch; switches the mode of accelerate and Transformers"
_AZURE = "left by an Azure ML job; DeepSpeed and others then look for that job's nodes"
_SAGEMAKER = "left by a SageMaker job; DeepSpeed then takes its ranks from it"
_SCHEDULER = "left by another scheduler's task; frameworks take their rank from it"

LEFTOVERS: tuple[Leftover, ...] = tuple(
    Leftover(pattern, why)
    for why, patterns in (
        (_RANKS, "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE"),
        (_TORCH, "MASTER_ADDR MASTER_PORT GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME"),
        (_PET, "PET_*"),
        (_ELASTIC, "TORCHELASTIC_*"),
        (_OMPI, "OMPI_* PRTE_*"),
        (_PMI, "PMI_* PMIX_* PMI2_* HYDRA_* HYDI_* MPI_LOCALRANKID MPI_LOCALNRANKS MPIR_* MV2_COMM_WORLD_*"),
        (_INTEL, "I_MPI_HYDRA_*"),
        (
            _SLURM,
            "SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE "
            "SLURM_TASKS_PER_NODE SLURM_STEPID SLURM_STEP_* SLURM_GTIDS SLURM_TASK_PID SLURM_CPUS_PER_TASK "
            "SLURM_GPUS_PER_TASK SLURM_LAUNCH_NODE_IPADDR SLURM_SRUN_COMM_* SLURM_DISTRIBUTION "
            "SLURM_MPI_TYPE SLURM_PMI* SLURM_NNODES",
        ),
        (_SLURM_BIND, "SLURM_CPU_BIND* SLURM_MEM_BIND* SLURM_GPU_BIND*"),
        (
            _HOROVOD,
            "HOROVOD_RANK HOROVOD_SIZE HOROVOD_LOCAL_* HOROVOD_CROSS_* HOROVOD_HOSTNAME HOROVOD_GLOO_*",
        ),
        (_HOROVOD, "HOROVOD_CONTROLLER HOROVOD_CPU_OPERATIONS HOROVOD_ELASTIC"),
        (_TF, "TF_CONFIG"),
        (_JAX, "JAX_COORDINATOR_* JAX_NUM_PROCESSES JAX_PROCESS_ID JAX_LOCAL_DEVICE_IDS"),
        (_ACCELERATE, "ACCELERATE_* FSDP_*"),
        (_AZURE, "AZUREML_* AZ_BATCH_* AZ_BATCHAI_*"),
        (_SAGEMAKER, "SM_*"),
        (_SCHEDULER, "JSM_NAMESPACE_* LSB_* FLUX_TASK_* PALS_*"),
    )
    for pattern in patterns.split()
)
"""In the order they are tried."""

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
"""Which of a node's GPUs a program sees (CUDA C programming guide, environment variables)."""

_JOB = "of the scheduler's job that the login is in"
_GPUS = "says which GPUs a program sees"
_SENDING = "a setting of the libraries that send, made on the node"
_THREADS = "how many threads a process has, and where"
_TRAINING = "a setting of the training's libraries, made on the node"
_LOOKED_UP = "where programs and libraries are looked for"

KEPT: tuple[Leftover, ...] = tuple(
    Leftover(pattern, why)
    for why, patterns in (
        (_JOB, "SLURM_* SLURMD_* PBS_* PE_HOSTFILE JOB_ID NSLOTS LSF_* FLUX_* COBALT_*"),
        (
            _GPUS,
            f"{VISIBLE_DEVICES} CUDA_DEVICE_ORDER NVIDIA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES "
            "HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ZE_AFFINITY_MASK",
        ),
        (_SENDING, "NCCL_* RCCL_* GLOO_* UCX_* UCC_* FI_* I_MPI_* MPICH_* MV2_*"),
        (_THREADS, "OMP_* GOMP_* KMP_* MKL_* OPENBLAS_* NUMEXPR_*"),
        (_TRAINING, "TORCH_* PYTORCH_* CUDA_LAUNCH_BLOCKING TF_* XLA_* JAX_* PL_* HOROVOD_* DS_*"),
        (_LOOKED_UP, "LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX"),
    )
    for pattern in patterns.split()
)
"""What stays, but for names that `LEFTOVERS` has: a plan shows it, for it changes what a program does."""

ASKED_FOR = tuple(entry.pattern for entry in (*LEFTOVERS, *KEPT))
"""Of these names a node tells the values that its login has."""
