package v1beta2

// BundleSource says where the programs of a node come from.
// +kubebuilder:validation:Enum=Plane;Directory;Packages;Mirror
type BundleSource string

// Sources of the programs of a node.
const (
	// BundlesFromPlane: the host's directory of bundles; a missing one is downloaded from the plane.
	BundlesFromPlane BundleSource = "Plane"
	// BundlesFromDirectory: the host's directory of bundles only.
	BundlesFromDirectory BundleSource = "Directory"
	// BundlesFromPackages: the packages that the host's administrator installed.
	BundlesFromPackages BundleSource = "Packages"
	// BundlesFromMirror: the host's directory of bundles; a missing one is downloaded from a mirror.
	BundlesFromMirror BundleSource = "Mirror"
)

// BundlePolicy says where an owned host gets the programs of a node from.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="(self.source == 'Mirror') == has(self.mirror)",message="mirror must be set with source Mirror, and only then"
type BundlePolicy struct {
	// source says where the programs come from.
	// +required
	Source BundleSource `json:"source,omitempty"`

	// mirror is the web server that has the bundles. It is used with source Mirror.
	// +optional
	Mirror BundleMirror `json:"mirror,omitempty,omitzero"`
}

// BundleMirror is a web server with bundles. It needs no trust: the agent verifies the digest of what it downloads.
type BundleMirror struct {
	// url is the directory of the bundles, such as https://mirror.example/capstan. They are named like
	// v1.36.3-linux-amd64.tar.gz. The agent sends no credentials, so the URL can't contain any.
	// +required
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~/-]*)?$`
	URL string `json:"url,omitempty"`

	// digests are the SHA-256 digests, in hex, of the bundles that may be downloaded. Default: the host asks its plane for
	// the digest of the plane's own bundle of the same version and architecture.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{64}$`
	Digests []string `json:"digests,omitempty"`
}
