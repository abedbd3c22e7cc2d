// Package enrolment defines the protocol between a host and the enrolment server of a plane: paths, bodies, the text of
// a credential, and how a host verifies its plane.
package enrolment

// Paths of the enrolment server. It refuses all others.
const (
	// VersionPath returns the plane's version of Capstan.
	VersionPath = "/v1/version"
	// InstallPath returns a sh script that installs the agent and enrolls with it.
	InstallPath = "/v1/install"
	// AgentPath, followed by an architecture as GOARCH, returns the agent; with ChecksumSuffix, its SHA-256 in hex.
	AgentPath = "/v1/agent/linux/"
	// EnrollPath accepts a Request and returns an Answer or a Refusal.
	EnrollPath = "/v1/enroll"
	// ReturnPath accepts a Return and returns an Answer or a Refusal.
	ReturnPath = "/v1/return"
	// BundlePath, followed by VERSION/linux/ARCH, returns a bundle to enrolled hosts, which present the certificate of
	// their key; with ChecksumSuffix, its SHA-256 in hex.
	BundlePath = "/v1/bundle/"
)

// ChecksumSuffix is appended to the path of an agent or a bundle to get its checksum.
const ChecksumSuffix = ".sha256"

// BodyLimit is the maximum size of a Request, an Answer or a Refusal, in bytes.
const BodyLimit = 16 << 10

// Request is what a host sends to enroll. The host presents a self-signed certificate on the connection, which proves
// that it has the key by which the plane knows it.
type Request struct {
	// Credential is the text of an enrolment credential.
	Credential string `json:"credential"`
	// Host is the name chosen for the host. Default: the only name that the credential allows, or else Hostname.
	Host string `json:"host,omitempty"`
	// Hostname is the host name of the computer.
	Hostname string `json:"hostname,omitempty"`
	// Machine identifies the hardware, as 64 hex digits.
	Machine string `json:"machine"`
	// Version is the version of the agent.
	Version string `json:"version,omitempty"`
}

// Return is what a host sends if its identity has expired. The host presents the same certificate as with a Request.
// The token shows which host it was; the key shows that it is the same computer.
type Return struct {
	// Token is the host's last token.
	Token string `json:"token"`
	// Version is the version of the agent.
	Version string `json:"version,omitempty"`
}

// Answer contains what the agent's configuration needs.
type Answer struct {
	Server    string `json:"server"`
	CAData    []byte `json:"caData"`
	Namespace string `json:"namespace"`
	Host      string `json:"host"`
	Token     string `json:"token"`
	// Again reports whether the host was enrolled before.
	Again bool `json:"again,omitempty"`
}

// Refusal says why a host was not enrolled.
type Refusal struct {
	// Reason is one word, for programs.
	Reason string `json:"reason"`
	// Message says what is wrong and what to do.
	Message string `json:"message"`
	// Retry reports whether the same request may succeed later.
	Retry bool `json:"retry,omitempty"`
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Reasons for refusals.
const (
	// ReasonCredential means that the credential is unknown, wrong or revoked, without saying which.
	ReasonCredential = "Credential"
	// ReasonExpired and ReasonUsedUp mean that the credential was valid but no longer is.
	ReasonExpired = "Expired"
	ReasonUsedUp  = "UsedUp"
	// ReasonName means that the credential is for other names, or that the name is invalid.
	ReasonName = "Name"
	// ReasonZone means that a host of that name is in another zone.
	ReasonZone = "Zone"
	// ReasonTaken means that a host of that name is another computer, or that this computer is a host of another name.
	ReasonTaken = "Taken"
	// ReasonInUse means that the host which would get a new identity has a machine.
	ReasonInUse = "InUse"
	// ReasonGone means that the host of a Return is no longer this computer, or that a person has to confirm it.
	ReasonGone = "Gone"
	// ReasonRequest means that the request is malformed.
	ReasonRequest = "Request"
	// ReasonBusy means that there are too many requests.
	ReasonBusy = "Busy"
	// ReasonPlane means that the plane has a problem of its own.
	ReasonPlane = "Plane"
)

// Ticket is the content of a file, YAML or JSON, with everything that a host needs to enroll, including a credential.
type Ticket struct {
	// Server is the URL of the enrolment server.
	Server string `json:"server" yaml:"server"`
	// CAHash is the hash of the public key of the CA that signs the server's certificate, in the format of [Pin].
	CAHash string `json:"caHash" yaml:"caHash"`
	// Credential is the text of an enrolment credential.
	Credential string `json:"credential" yaml:"credential"`
	// Host is the name for the CapstanHost. Default: the one in the credential, or the computer's host name.
	Host string `json:"host,omitempty" yaml:"host,omitempty"`
}
