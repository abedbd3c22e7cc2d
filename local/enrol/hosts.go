package enrol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/local/credential"
	"github.com/capstan-dev/capstan/provider/epoch"
	"github.com/capstan-dev/capstan/provider/identity"
)

// tokenLife is how long the token in an answer is valid. The agent uses that token at once to get one of its own.
const tokenLife = 10 * time.Minute

// Hosts turns computers that have a credential into hosts.
type Hosts struct {
	// Client may read from a cache; Reader must not.
	Client client.Client
	Reader client.Reader
	// Server is where agents reach the API server; CAData is the certificate authority that signs its certificate.
	Server string
	CAData []byte
	// Clock decides whether a credential has expired.
	Clock clock.PassiveClock
}

// machineText is the format of a hardware hash.
var machineText = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Enroll makes a host of the computer that has this key, and returns what its agent needs. A refusal is an
// *enrolment.Refusal. Enroll is idempotent.
func (h *Hosts) Enroll(ctx context.Context, r enrolment.Request, key string) (*enrolment.Answer, error) {
	if !machineText.MatchString(r.Machine) {
		return nil, refuse(enrolment.ReasonRequest, "the request does not name the computer that sent it")
	}
	var answer *enrolment.Answer
	made := false
	// Another request may have used the credential or changed the host in the meantime, and the controller creates the
	// same objects concurrently.
	err := retry.OnError(retry.DefaultBackoff, changed, func() (err error) {
		answer, err = h.once(ctx, r, key, &made)
		return err
	})
	if answer != nil && made {
		answer.Again = false
	}
	return answer, err
}

// changed reports whether err says that an object has changed since it was read.
func changed(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// once makes one attempt. It sets *made to true if it has created the host.
func (h *Hosts) once(ctx context.Context, r enrolment.Request, key string, made *bool) (*enrolment.Answer, error) {
	c, err := credential.Find(ctx, h.Reader, r.Credential)
	if errors.Is(err, credential.ErrUnknown) {
		return nil, refuse(enrolment.ReasonCredential, "%v", err)
	}
	if err != nil {
		return nil, err
	}
	wanted, refusal := nameOf(c, r)
	if refusal != nil {
		return nil, refusal
	}
	who := claimant{host: wanted, key: key, machine: r.Machine}
	there, same, err := h.look(ctx, c.Namespace, who)
	if err != nil {
		return nil, err
	}
	what, refusal := decide(c, who, there, same, h.Clock.Now())
	if refusal != nil {
		return nil, refusal
	}
	use := credential.Use{Host: who.host, Key: who.key, Time: h.Clock.Now().UTC().Truncate(time.Second)}
	if err := c.Spend(ctx, h.Client, use); errors.Is(err, credential.ErrUnknown) {
		return nil, refuse(enrolment.ReasonCredential, "%v", err)
	} else if err != nil {
		return nil, err
	}
	host, err := h.settle(ctx, c, who, what, there)
	if err != nil {
		return nil, err
	}
	*made = *made || what == register
	token, err := h.token(ctx, host)
	if err != nil {
		return nil, err
	}
	return &enrolment.Answer{Server: h.Server, CAData: h.CAData, Namespace: host.Namespace, Host: host.Name,
		Token: token, Again: what == again || what == replace}, nil
}

// look returns the host with the claimant's name, and the name of the host that has the claimant's key.
func (h *Hosts) look(ctx context.Context, namespace string, who claimant) (*infrav1.CapstanHost, string, error) {
	same := ""
	all := &infrav1.CapstanHostList{}
	if err := h.Client.List(ctx, all, client.InNamespace(namespace)); err != nil {
		return nil, "", fmt.Errorf("listing hosts: %w", err)
	}
	for i := range all.Items {
		if all.Items[i].Annotations[KeyAnnotation] == who.key {
			same = all.Items[i].Name
		}
	}
	there := &infrav1.CapstanHost{}
	err := h.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: who.host}, there)
	if apierrors.IsNotFound(err) {
		return nil, same, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("looking up host %s: %w", who.host, err)
	}
	return there, same, nil
}

// labels returns the labels of a host that enrolls for the first time. Pure.
func labels(wanted map[string]string) map[string]string {
	all := map[string]string{infrav1.EnrolledLabel: "true"}
	maps.Copy(all, wanted)
	return all
}

// Known reports whether a host has enrolled with a key.
func (h *Hosts) Known(ctx context.Context, key string) (bool, error) {
	all := &infrav1.CapstanHostList{}
	if err := h.Client.List(ctx, all); err != nil {
		return false, fmt.Errorf("listing hosts: %w", err)
	}
	return slices.ContainsFunc(all.Items, func(host infrav1.CapstanHost) bool {
		return host.Annotations[KeyAnnotation] == key
	}), nil
}

// settle creates the host, or hands it to the claimant.
func (h *Hosts) settle(
	ctx context.Context, c *credential.Credential, who claimant, what verdict, there *infrav1.CapstanHost,
) (*infrav1.CapstanHost, error) {
	marks := map[string]string{KeyAnnotation: who.key, MachineAnnotation: who.machine}
	switch what {
	case again:
		return there, nil
	case register:
		host := &infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   c.Namespace,
				Name:        who.host,
				Labels:      labels(c.Labels),
				Annotations: marks,
			},
			Spec: infrav1.CapstanHostSpec{Zone: c.Zone},
		}
		if host.Spec.Zone == "" {
			host.Spec.Zone = credential.DefaultZone
		}
		if err := h.Client.Create(ctx, host); err != nil {
			return nil, fmt.Errorf("registering host %s: %w", who.host, err)
		}
		return host, nil
	case replace:
		// Revoke all earlier tokens of the identity first: if a later step fails, the retry runs this step again.
		if err := epoch.End(ctx, h.Reader, h.Client, there, there.Spec.Epoch); err != nil {
			return nil, err
		}
	}
	before := there.DeepCopy()
	for key, value := range marks {
		metav1.SetMetaDataAnnotation(&there.ObjectMeta, key, value)
	}
	if what == adopt {
		for key, value := range labels(c.Labels) {
			metav1.SetMetaDataLabel(&there.ObjectMeta, key, value)
		}
	}
	same := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := h.Client.Patch(ctx, there, same); err != nil {
		return nil, fmt.Errorf("changing host %s: %w", who.host, err)
	}
	return there, nil
}

// token creates what the agent of a host needs, like the controller, and returns a token for the agent.
func (h *Hosts) token(ctx context.Context, host *infrav1.CapstanHost) (string, error) {
	if err := identity.Ensure(ctx, h.Reader, h.Client, host, identity.Objects(host)); err != nil {
		return "", fmt.Errorf("creating the account of host %s: %w", host.Name, err)
	}
	if err := epoch.Begin(ctx, h.Reader, h.Client, host); err != nil {
		return "", fmt.Errorf("beginning the epoch of host %s: %w", host.Name, err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: host.Namespace, Name: infrav1.IdentityPrefix + host.Name,
	}}
	request := epoch.TokenRequest(host, tokenLife)
	if err := h.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("getting a token for host %s: %w", host.Name, err)
	}
	return request.Status.Token, nil
}
