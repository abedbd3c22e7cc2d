package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BootstrapPhase is the agent's progress with the bootstrap data of a claim.
// +kubebuilder:validation:Enum=Running;Succeeded;Failed
type BootstrapPhase string

// Phases of a bootstrap.
const (
	// BootstrapRunning: it started.
	BootstrapRunning BootstrapPhase = "Running"
	// BootstrapSucceeded: all steps ran.
	BootstrapSucceeded BootstrapPhase = "Succeeded"
	// BootstrapFailed: a step failed; final for this claim.
	BootstrapFailed BootstrapPhase = "Failed"
)

// BootstrapReport is the agent's report on the bootstrap data of one claim.
type BootstrapReport struct {
	// providerID identifies the claim that this report is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:/._-]+$`
	ProviderID string `json:"providerID,omitempty"`

	// phase is Running, Succeeded or Failed.
	// +required
	Phase BootstrapPhase `json:"phase,omitempty"`

	// step is the step that runs or failed, for example "write_files" or "runcmd 1/2".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Step string `json:"step,omitempty"`

	// message says what went wrong; it never quotes output or data, which may hold secrets.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// startTime is when the first step started.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`

	// completionTime is when the bootstrap succeeded or failed.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	CompletionTime metav1.Time `json:"completionTime,omitempty,omitzero"`

	// baseline is the digest (SHA-256, base64 for URLs) of what the agent found on the host before it ran the bootstrap
	// data. Absent means that the agent did not look: see spec.claim.proof.
	// +optional
	// +kubebuilder:validation:MinLength=43
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	Baseline string `json:"baseline,omitempty"`
}

// CleaningReport is the agent's report on cleaning the host after one claim.
type CleaningReport struct {
	// providerID identifies the claim that this report is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:/._-]+$`
	ProviderID string `json:"providerID,omitempty"`

	// done is true once cleaning has finished.
	// +optional
	Done bool `json:"done,omitempty"`

	// leftovers names what could not be removed, for example "mount /var/lib/kubelet/pods/x" or "process 812 kubelet". If
	// done is true and leftovers is empty, the host is proved clean. If there are too many, the last entry says how many
	// were omitted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=11
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Leftovers []string `json:"leftovers,omitempty"`

	// baseline is the digest (SHA-256, base64 for URLs) of what the agent found on the host before the machine used it.
	// The agent compared the host with it afterwards. Absent means that the agent did not look: see spec.claim.proof.
	// +optional
	// +kubebuilder:validation:MinLength=43
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	Baseline string `json:"baseline,omitempty"`
}

// HostDisk is a disk of a host.
type HostDisk struct {
	// name is the kernel's name of the disk, for example nvme0n1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!._-]+$`
	Name string `json:"name,omitempty"`

	// sizeGiB is the size of the disk in GiB, rounded down.
	// +required
	// +kubebuilder:validation:Minimum=1
	SizeGiB int64 `json:"sizeGiB,omitempty"`

	// rotational is true for a spinning disk.
	// +optional
	Rotational bool `json:"rotational,omitempty"`
}

// AgentReport is everything that a host's agent reports. Only the agent writes it, and nothing in it is proved: a
// hostile host can report anything. Therefore the limits of its fields keep its stored size to at most 32 KiB.
// +kubebuilder:validation:MinProperties=1
type AgentReport struct {
	// version is the version of the agent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`

	// epoch is the epoch that the agent's token belongs to. A host can't be claimed until this equals spec.epoch. Absent
	// means that the agent's version does not know epochs.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch *int64 `json:"epoch,omitempty"`

	// bootID changes with each boot of the host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`

	// operatingSystem is the host's operating system, for example "Debian GNU/Linux 12 (bookworm)".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	OperatingSystem string `json:"operatingSystem,omitempty"`

	// kernel is the release of the kernel, for example "6.1.0-18-amd64".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Kernel string `json:"kernel,omitempty"`

	// architecture is the host's architecture, as Go names it, for example "amd64".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	Architecture string `json:"architecture,omitempty"`

	// processors is the number of logical processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Processors int32 `json:"processors,omitempty"`

	// memoryMiB is the memory in MiB.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemoryMiB int64 `json:"memoryMiB,omitempty"`

	// processorModel is the kernel's name of the processor, for example "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9 ()@.,:/_+-]+$`
	ProcessorModel string `json:"processorModel,omitempty"`

	// model is the firmware's name of the computer, for example "Dell Inc. PowerEdge R640".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9 ()@.,:/_+-]+$`
	Model string `json:"model,omitempty"`

	// virtualization is what the host runs in, as systemd names it: none, kvm, lxc and others. A local host reports
	// namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]+$`
	Virtualization string `json:"virtualization,omitempty"`

	// disks are the largest disks of the host.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Disks []HostDisk `json:"disks,omitempty"`

	// addresses are the IP addresses of the host's interfaces, except interfaces that network plug-ins create.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:Pattern=`^[0-9A-Fa-f.:]+$`
	Addresses []string `json:"addresses,omitempty"`

	// address is the host's internal IP address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`

	// kubernetesVersions are the versions whose bundles the agent can install, newest first. Empty means that the agent
	// does not know, and that any version may work.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9.+_-]+$`
	KubernetesVersions []string `json:"kubernetesVersions,omitempty"`

	// bootstrap is the report on the bootstrap data of the last claim.
	// +optional
	Bootstrap *BootstrapReport `json:"bootstrap,omitempty"`

	// cleaning is the report on cleaning after the last released claim.
	// +optional
	Cleaning *CleaningReport `json:"cleaning,omitempty"`

	// carries is the providerID of the machine that is on the host, or has left something there, according to the agent's
	// records. It is "unknown" if those can't be read. A host that carries a machine but has no claim is not used: the
	// claim ended while the agent was away, or the management cluster was restored from a backup that is older than the
	// claim. Absent means that the host carries no machine, or that the agent's version does not report it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:/._-]+$`
	Carries string `json:"carries,omitempty"`

	// handOver is the report on the offer of another management cluster, to which the host is about to move.
	// +optional
	HandOver *HandOverReport `json:"handOver,omitempty"`
}
