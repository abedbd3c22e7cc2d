// Package credential keeps enrolment credentials: anybody who has one may make a computer a host of the plane, within
// limits.
//
// A credential is stored as a Secret in kube-system, where tenants have no rights. The Secret holds the credential's
// hash and its limits; only the person who created the credential has the credential itself.
package credential

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capstan-dev/capstan/internal/hint"
)

const (
	// Namespace is the namespace of the credentials' Secrets.
	Namespace = metav1.NamespaceSystem
	// SecretType is the type of those Secrets.
	SecretType corev1.SecretType = "infrastructure.capstan.dev/enrolment"
	// Label marks those Secrets.
	Label = "infrastructure.capstan.dev/enrolment"
	// DefaultZone is the zone of a host if neither the credential nor a registration names one.
	DefaultZone = "default"

	secretPrefix = "capstan-enrolment-"
	hashKey      = "hash"
	limitsKey    = "limits"
	usesKey      = "uses"
)

// Bounds of a credential.
const (
	MaxLife   = 30 * 24 * time.Hour
	MaxUses   = 1000
	maxLabels = 32
)

// Limits restrict what a credential allows.
type Limits struct {
	// Namespace is the namespace of the hosts that enroll with the credential. Required.
	Namespace string `json:"namespace"`
	// Name is a pattern for host names, in which * matches any characters. Empty: any name.
	Name string `json:"name,omitempty"`
	// Zone is the failure domain of these hosts. Empty: a host that is already registered keeps its zone, and a new
	// host gets DefaultZone.
	Zone string `json:"zone,omitempty"`
	// Labels are added to these hosts.
	Labels map[string]string `json:"labels,omitempty"`
	// Reenroll allows the computer of a registered host to enroll as that host again after it was reinstalled.
	Reenroll bool `json:"reenroll,omitempty"`
	// Uses is the number of hosts that may enroll with the credential.
	Uses int `json:"uses"`
	// Expires is when the credential expires.
	Expires time.Time `json:"expires"`
}

// Use records one host that enrolled with a credential.
type Use struct {
	Host string    `json:"host"`
	Key  string    `json:"key"` // the hash of the host's key
	Time time.Time `json:"time"`
}

// Credential is a credential without its secret.
type Credential struct {
	// ID is the credential's name, which is not secret.
	ID string `json:"id"`
	Limits
	// Created is when the credential was created.
	Created time.Time `json:"created"`
	// Used lists the hosts that enrolled with the credential.
	Used []Use `json:"used,omitempty"`
	// State says whether the credential works; List sets it.
	State State `json:"state"`

	hash   string
	secret *corev1.Secret
}

// State says whether a credential works.
type State string

// The states of a credential.
const (
	Valid   State = "Valid"
	Expired State = "Expired"
	UsedUp  State = "UsedUp"
)

// StateAt returns the credential's state at the time now.
func (c *Credential) StateAt(now time.Time) State {
	switch {
	case !now.Before(c.Expires):
		return Expired
	case len(c.Used) >= c.Uses:
		return UsedUp
	}
	return Valid
}

// UsedBy reports whether the host with this name and key enrolled with the credential.
func (c *Credential) UsedBy(host, key string) bool {
	return slices.ContainsFunc(c.Used, func(u Use) bool { return u.Host == host && u.Key == key })
}

// Matches reports whether a host may have this name.
func (l Limits) Matches(host string) bool {
	if l.Name == "" {
		return true
	}
	ok, err := path.Match(l.Name, host)
	return err == nil && ok
}

// OnlyName returns the only name that the limits allow, or "" if they allow several.
func (l Limits) OnlyName() string {
	if strings.Contains(l.Name, "*") {
		return ""
	}
	return l.Name
}

// reserved matches labels whose domain is reserved for programs.
var reserved = regexp.MustCompile(`(^|[.])(cluster\.x-k8s\.io|kubernetes\.io|k8s\.io)/|^infrastructure\.capstan\.dev/`)

// Check returns an error if the limits are invalid.
func (l Limits) Check(now time.Time) error {
	switch {
	case len(validation.IsDNS1123Label(l.Namespace)) > 0:
		return hint.Errorf("name one with -n", "%q is not a namespace", l.Namespace)
	case l.Name != "" && len(validation.IsDNS1123Label(strings.ReplaceAll(l.Name, "*", "x"))) > 0:
		return hint.Errorf("use a name such as rack1-07, or a pattern such as 'rack1-*'",
			"%q is not the name of a host", l.Name)
	case l.Name != "" && l.OnlyName() != "" && l.Uses > 1:
		return hint.Errorf("use a pattern such as 'rack1-*'", "%d hosts can't share the name %s", l.Uses, l.Name)
	case l.Zone != "" && (len(validation.IsValidLabelValue(l.Zone)) > 0):
		return hint.Errorf("use letters, digits, -, _ and .", "%q is not a zone", l.Zone)
	case l.Uses < 1 || l.Uses > MaxUses:
		return hint.Errorf(fmt.Sprintf("choose 1 to %d", MaxUses), "the number of uses can't be %d", l.Uses)
	case !l.Expires.After(now):
		return hint.Errorf("choose a duration such as 1h", "the credential would already have expired")
	case l.Expires.Sub(now) > MaxLife:
		return hint.Errorf(
			"choose a shorter duration, and create another one when it has expired",
			"the credential would live for more than %d days",
			int(MaxLife.Hours()/24),
		)
	case len(l.Labels) > maxLabels:
		return hint.Errorf("leave some out", "%d labels are too many: at most %d", len(l.Labels), maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(l.Labels)) {
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(l.Labels[key])) > 0 {
			return hint.Errorf("write labels as KEY=VALUE", "%q is not a label", key+"="+l.Labels[key])
		}
		if reserved.MatchString(key) {
			return hint.Errorf(
				"choose a key of your own",
				"label %s is reserved for programs: credentials can't set it",
				key,
			)
		}
	}
	return nil
}

// decode reads a credential's Secret; ok is false if the Secret holds no credential.
func decode(secret *corev1.Secret) (*Credential, bool) {
	id, ours := strings.CutPrefix(secret.Name, secretPrefix)
	if !ours || secret.Type != SecretType || secret.Namespace != Namespace {
		return nil, false
	}
	c := &Credential{ID: id, hash: string(secret.Data[hashKey]), Created: secret.CreationTimestamp.Time, secret: secret}
	if json.Unmarshal(secret.Data[limitsKey], &c.Limits) != nil || len(c.hash) != 64 {
		return nil, false
	}
	if uses := secret.Data[usesKey]; len(uses) > 0 && json.Unmarshal(uses, &c.Used) != nil {
		return nil, false
	}
	return c, true
}

// encode returns the Secret of a new credential.
func encode(id, hash string, l Limits) (*corev1.Secret, error) {
	limits, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encoding the limits of a credential: %w", err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: secretPrefix + id, Labels: map[string]string{Label: ""},
		},
		Type: SecretType,
		Data: map[string][]byte{hashKey: []byte(hash), limitsKey: limits},
	}, nil
}
