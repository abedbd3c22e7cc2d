package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BootstrapPhase is how far the agent is with the bootstrap data of a claim.
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

// BootstrapReport is what the agent says about the bootstrap data of one claim.
type BootstrapReport struct {
	// providerID of the claim that this report is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:/._-]+$`
	ProviderID string `json:"providerID,omitempty"`

	// phase is Running, Succeeded or Failed.
	// +required
	Phase BootstrapPhase `json:"phase,omitempty"`

	// step that runs or failed, for example "write_files" or "runcmd 1/2".
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

	// completionTime is when it succeeded or failed.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	CompletionTime metav1.Time `json:"completionTime,omitempty,omitzero"`

	// baseline is the digest (SHA-256, base64 for URLs) of what the agent saw on the host before it began with the
	// bootstrap data.
	// Absent: it did not look, see spec.claim.proof.
	// +optional
	// +kubebuilder:validation:MinLength=43
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	Baseline string `json:"baseline,omitempty"`
}

// CleaningReport is what the agent says about cleaning after one claim.
type CleaningReport struct {
	// providerID of the claim that this report is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:/._-]+$`
	ProviderID string `json:"providerID,omitempty"`

	// done is true when cleaning ended.
	// +optional
	Done bool `json:"done,omitempty"`

	// leftovers names what could not be removed, for example "mount /var/lib/kubelet/pods/x" or "process 812 kubelet".
	// Empty with done: the host is proved clean. The last one counts those that there is no room for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=11
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Leftovers []string `json:"leftovers,omitempty"`

	// baseline is the digest (SHA-256, base64 for URLs) of what the agent saw on the host before the machine came, and
	// compared it with afterwards.
	// Absent: it did not look, see spec.claim.proof.
	// +optional
	// +kubebuilder:validation:MinLength=43
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	Baseline string `json:"baseline,omitempty"`
}

// HostDisk is a disk of a host.
type HostDisk struct {
	// name is the kernel's, for example nvme0n1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!._-]+$`
	Name string `json:"name,omitempty"`

	// sizeGiB is its size in GiB, rounded down.
	// +required
	// +kubebuilder:validation:Minimum=1
	SizeGiB int64 `json:"sizeGiB,omitempty"`

	// rotational is true for a disk that turns.
	// +optional
	Rotational bool `json:"rotational,omitempty"`
}

// AgentReport is everything that the agent of a host says. Only the agent writes it, and nothing in it is proved: facts
// are what the host claims to be. A host is hostile until proved
// otherwise, so it has 32 KiB at most, as it is stored: the limits of its fields sum up to less.
// +kubebuilder:validation:MinProperties=1
type AgentReport struct {
	// version of the agent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`

	// epoch that the agent's token is of. A host can't be claimed until it is that of spec. Absent: the agent is of a
	// version that does not know epochs.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch *int64 `json:"epoch,omitempty"`

	// bootID changes with each boot of the host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`

	// operatingSystem of the host, for example "Debian GNU/Linux 12 (bookworm)".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	OperatingSystem string `json:"operatingSystem,omitempty"`

	// kernel release, for example "6.1.0-18-amd64".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Kernel string `json:"kernel,omitempty"`

	// architecture as Go names it, for example "amd64".
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

	// processorModel as the kernel names it, for example "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9 ()@.,:/_+-]+$`
	ProcessorModel string `json:"processorModel,omitempty"`

	// model of the computer as its firmware names it, for example "Dell Inc. PowerEdge R640".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9 ()@.,:/_+-]+$`
	Model string `json:"model,omitempty"`

	// virtualization that the host runs in, as systemd names it: none, kvm, lxc and others; namespace for a local host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]+$`
	Virtualization string `json:"virtualization,omitempty"`

	// disks of the host, the largest ones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Disks []HostDisk `json:"disks,omitempty"`

	// addresses are the IP addresses of the host's interfaces, without those that network plug-ins make.
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

	// kubernetesVersions are the bundles that the agent can install, newest first. Empty: the agent does not know; any
	// version may work.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9.+_-]+$`
	KubernetesVersions []string `json:"kubernetesVersions,omitempty"`

	// bootstrap tells about the bootstrap data of the last claim.
	// +optional
	Bootstrap *BootstrapReport `json:"bootstrap,omitempty"`

	// cleaning tells about cleaning after the last released claim.
	// +optional
	Cleaning *CleaningReport `json:"cleaning,omitempty"`

	// carries is the providerID of the machine that is on the host, or has left something there, as the agent remembers;
	// "unknown" if its records can't be read. A host without claim that carries one is not used: its claim ended while
	// the agent was away, or the management cluster is older than the claim. Absent: the host carries none, or the agent
	// is of a version that does not say.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:/._-]+$`
	Carries string `json:"carries,omitempty"`

	// handOver tells about an offer of another management cluster, to which the host is about to move.
	// +optional
	HandOver *HandOverReport `json:"handOver,omitempty"`
}
