package v1beta2

// CleaningProof says what proves that an owned host is clean after a machine.
// +kubebuilder:validation:Enum=Trust;Compare;Reimage
type CleaningProof string

// Proofs that a host is clean.
const (
	// ProofTrust: what a Kubernetes node leaves is looked for. Whatever else the machine did is not noticed.
	ProofTrust CleaningProof = "Trust"
	// ProofCompare: the agent looks at the whole system before the machine comes, and at what differs afterwards. A
	// machine that was root and deceives the agent, or the kernel, is not noticed.
	ProofCompare CleaningProof = "Compare"
	// ProofReimage: the host is out of use until somebody, or something, says with [AcceptAnnotation] that it was
	// installed anew.
	ProofReimage CleaningProof = "Reimage"
)

// PackagePolicy says what changes of installed packages mean.
// +kubebuilder:validation:Enum=Allow;Deny
type PackagePolicy string

// What to do with changes of packages.
const (
	// PackagesAllow: files that the package database records are no leftovers.
	PackagesAllow PackagePolicy = "Allow"
	// PackagesDeny: a changed file is left, whoever changed it.
	PackagesDeny PackagePolicy = "Deny"
)

// CleaningPolicy says what it takes until a host is clean after a machine.
// +kubebuilder:validation:MinProperties=1
type CleaningPolicy struct {
	// proof says what proves that the host is clean. Absent: what the provider was started with.
	// +optional
	Proof CleaningProof `json:"proof,omitempty"`

	// packages says whether packages may be installed and updated while a machine has the host, with proof Compare.
	// Absent: Allow.
	// +optional
	Packages PackagePolicy `json:"packages,omitempty"`
}
