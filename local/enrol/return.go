package enrol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/epoch"
)

const (
	// awayLimit is how long after its token expired a host may return without an administrator.
	awayLimit = 90 * 24 * time.Hour
	// One host may return returnBurst times at once, and then once per returnEvery.
	returnEvery, returnBurst = time.Minute, 5
)

// Returns issues new tokens, without an administrator, to hosts whose tokens have expired (docs/adr/0036).
type Returns struct {
	*Hosts
	// Keys returns the public keys with which the API server verifies tokens of service accounts. Required.
	Keys func() ([]any, error)

	mu   sync.Mutex
	each map[types.NamespacedName]*rate.Limiter
}

// Return issues a new token to the host that has this key and an earlier token. A refusal is an *enrolment.Refusal.
func (h *Returns) Return(ctx context.Context, r enrolment.Return, key string) (*enrolment.Answer, error) {
	keys, err := h.Keys()
	if err != nil {
		return nil, fmt.Errorf("reading the keys of tokens: %w", err)
	}
	last, err := readToken(r.Token, keys)
	if err != nil {
		return nil, refuse(enrolment.ReasonCredential, "%v: enroll the host again", err)
	}
	name := types.NamespacedName{Namespace: last.namespace, Name: last.host}
	host := &infrav1.CapstanHost{}
	if err := h.Reader.Get(ctx, name, host); apierrors.IsNotFound(err) {
		host = nil
	} else if err != nil {
		return nil, fmt.Errorf("looking up host %s: %w", name.Name, err)
	}
	if refusal := mayReturn(last, key, host, h.Clock.Now()); refusal != nil {
		return nil, refusal
	}
	if !h.allow(name) {
		return nil, &enrolment.Refusal{Reason: enrolment.ReasonBusy, Retry: true,
			Message: "host " + name.Name + " has come back too often: try again in a minute"}
	}
	token, err := h.anotherToken(ctx, host, last)
	if err != nil {
		return nil, err
	}
	return &enrolment.Answer{Server: h.Server, CAData: h.CAData, Namespace: host.Namespace, Host: host.Name,
		Token: token, Again: true}, nil
}

// mayReturn decides whether a computer with this key and earlier token is still the host; host is nil if it does not
// exist. Pure.
func mayReturn(last lastToken, key string, host *infrav1.CapstanHost, now time.Time) *enrolment.Refusal {
	const what = ": enroll it again with a credential, after a person has looked at it"
	switch {
	case host == nil || host.DeletionTimestamp != nil:
		return refuse(enrolment.ReasonGone, "host %s was removed"+what, last.host)
	case host.Spec.Supplier != "" || host.Annotations[KeyAnnotation] == "" || host.Annotations[KeyAnnotation] != key:
		return refuse(enrolment.ReasonGone, "host %s is not this computer"+what, last.host)
	case claim.Abandoned(host):
		return refuse(enrolment.ReasonGone, "host %s was abandoned while it was away"+what, last.host)
	case last.secret != infrav1.EpochSecret(host.Name, host.Spec.Epoch):
		return refuse(enrolment.ReasonGone, "the claim of host %s ended while it was away"+what, last.host)
	case now.After(last.ends.Add(awayLimit)):
		return refuse(enrolment.ReasonGone, "host %s was away for more than %d days"+what, last.host,
			awayLimit/(24*time.Hour))
	}
	return nil
}

// anotherToken requests a token bound to the same Secret as the last one. The API server refuses if the Secret has been
// replaced.
func (h *Returns) anotherToken(ctx context.Context, host *infrav1.CapstanHost, last lastToken) (string, error) {
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = host.Namespace, infrav1.IdentityPrefix+host.Name
	request := epoch.TokenRequest(host, tokenLife)
	request.Spec.BoundObjectRef.UID = last.secretUID
	err := h.Client.SubResource("token").Create(ctx, account, request)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return "", refuse(enrolment.ReasonGone,
			"the identity of host %s was revoked: enroll it again with a credential", host.Name)
	}
	if err != nil {
		return "", fmt.Errorf("getting a token for host %s: %w", host.Name, err)
	}
	if request.Status.Token == "" {
		return "", errors.New("the API server granted an empty token")
	}
	return request.Status.Token, nil
}

// allow reports whether a host may return now. Only existing hosts that have proved their identity count.
func (h *Returns) allow(name types.NamespacedName) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.each == nil || len(h.each) >= addresses {
		h.each = map[types.NamespacedName]*rate.Limiter{}
	}
	one, known := h.each[name]
	if !known {
		one = rate.NewLimiter(rate.Every(returnEvery), returnBurst)
		h.each[name] = one
	}
	return one.AllowN(h.Clock.Now(), 1)
}
