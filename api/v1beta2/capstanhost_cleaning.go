package v1beta2

// CleaningProof says what proves that an owned host is clean after a machine used it.
// +kubebuilder:validation:Enum=Trust;Compare;Reimage
type CleaningProof string

// Proofs that a host is clean.
const (
	// ProofTrust: the agent looks only for what a Kubernetes node leaves behind. It does not notice what else the machine
	// did.
	ProofTrust CleaningProof = "Trust"
	// ProofCompare: the agent records the whole system before the machine uses the host, and compares it afterwards. It
	// does not notice a machine that, as root, deceives the agent or the kernel.
	ProofCompare CleaningProof = "Compare"
	// ProofReimage: the host stays out of use until a person or a program confirms with [AcceptAnnotation] that it was
	// reinstalled.
	ProofReimage CleaningProof = "Reimage"
)

// PackagePolicy says whether changes by packages count as leftovers.
// +kubebuilder:validation:Enum=Allow;Deny
type PackagePolicy string

// Values of PackagePolicy.
const (
	// PackagesAllow: a changed file is not a leftover if the package database records the change.
	PackagesAllow PackagePolicy = "Allow"
	// PackagesDeny: every changed file is a leftover, even if a package changed it.
	PackagesDeny PackagePolicy = "Deny"
)

// CleaningPolicy says what proves that a host is clean after a machine used it.
// +kubebuilder:validation:MinProperties=1
type CleaningPolicy struct {
	// proof says what proves that the host is clean. Default: the flag --cleaning-proof of the provider.
	// +optional
	Proof CleaningProof `json:"proof,omitempty"`

	// packages is used with proof Compare. It says whether packages may be installed and updated while a machine has the
	// host. Default: Allow.
	// +optional
	Packages PackagePolicy `json:"packages,omitempty"`
}
