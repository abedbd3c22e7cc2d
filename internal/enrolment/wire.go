// Package enrolment is what a host and the enrolment server of a plane say to each other: paths, bodies, the text of a
// credential, and how a host knows that it talks to its plane.
package enrolment

// Paths of the enrolment server. All others are refused.
const (
	// VersionPath answers which version of Capstan the plane is.
	VersionPath = "/v1/version"
	// InstallPath is a script for sh that installs the agent and enrolls with it.
	InstallPath = "/v1/install"
	// AgentPath, with an architecture as Go names it, is the agent; with ChecksumSuffix its SHA-256, in hex.
	AgentPath = "/v1/agent/linux/"
	// EnrollPath takes a Request and returns an Answer or a Refusal.
	EnrollPath = "/v1/enroll"
	// ReturnPath takes a Return and returns an Answer or a Refusal.
	ReturnPath = "/v1/return"
	// BundlePath, with VERSION/linux/ARCH, is a bundle for enrolled hosts, which show the certificate of their key.
	BundlePath = "/v1/bundle/"
)

// ChecksumSuffix is appended to the path of an agent for its checksum.
const ChecksumSuffix = ".sha256"

// BodyLimit bounds a Request, an Answer and a Refusal, in bytes.
const BodyLimit = 16 << 10

// Request is what a host sends. It shows a certificate of its own making on the connection: that proves that it has the
// key by which the plane knows it.
type Request struct {
	// Credential is the text of an enrolment credential.
	Credential string `json:"credential"`
	// Host is the name that somebody has chosen. Empty: the only one that the credential allows, or else Hostname.
	Host string `json:"host,omitempty"`
	// Hostname is the name of the computer.
	Hostname string `json:"hostname,omitempty"`
	// Machine identifies the hardware: 64 characters in hex.
	Machine string `json:"machine"`
	// Version is the agent's.
	Version string `json:"version,omitempty"`
}

// Return is what a host sends whose identity has ended with time. It shows the same certificate as with a Request: the
// token says which host it was, and the key that it is still the same computer.
type Return struct {
	// Token is the last one that the host had.
	Token string `json:"token"`
	// Version is the agent's.
	Version string `json:"version,omitempty"`
}

// Answer has what the agent's configuration needs.
type Answer struct {
	Server    string `json:"server"`
	CAData    []byte `json:"caData"`
	Namespace string `json:"namespace"`
	Host      string `json:"host"`
	Token     string `json:"token"`
	// Again is true if the host was enrolled before.
	Again bool `json:"again,omitempty"`
}

// Refusal says why a host was not enrolled.
type Refusal struct {
	// Reason is one word for programs.
	Reason string `json:"reason"`
	// Message says what is wrong and what to do.
	Message string `json:"message"`
	// Retry is true if the same request may succeed later.
	Retry bool `json:"retry,omitempty"`
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Reasons of refusals.
const (
	// ReasonCredential: the credential is unknown, wrong or revoked; it is not said which.
	ReasonCredential = "Credential"
	// ReasonExpired and ReasonUsedUp: the credential is right, but too late.
	ReasonExpired = "Expired"
	ReasonUsedUp  = "UsedUp"
	// ReasonName: the credential is for other names, or the name is none.
	ReasonName = "Name"
	// ReasonZone: a host of that name is in another zone.
	ReasonZone = "Zone"
	// ReasonTaken: a host of that name is another computer, or this computer is a host of another name.
	ReasonTaken = "Taken"
	// ReasonInUse: a machine is on the host that would get another identity.
	ReasonInUse = "InUse"
	// ReasonGone: the host of a Return is not this computer any more, or a person has to say so.
	ReasonGone = "Gone"
	// ReasonRequest: the request is malformed.
	ReasonRequest = "Request"
	// ReasonBusy: too many requests.
	ReasonBusy = "Busy"
	// ReasonPlane: the plane has a problem of its own.
	ReasonPlane = "Plane"
)

// Ticket is a file with everything that a host needs to enroll: YAML or JSON. It holds a credential.
type Ticket struct {
	// Server is the URL of the enrolment server.
	Server string `json:"server" yaml:"server"`
	// CAHash is the hash of the public key that signs the server's certificate, as Pin returns it.
	CAHash string `json:"caHash" yaml:"caHash"`
	// Credential is the text of an enrolment credential.
	Credential string `json:"credential" yaml:"credential"`
	// Host is the name for the CapstanHost. Default: the one in the credential, or the computer's host name.
	Host string `json:"host,omitempty" yaml:"host,omitempty"`
}
