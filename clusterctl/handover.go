package clusterctl

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/provider/epoch"
	"github.com/capstan-dev/capstan/provider/handover"
	agentid "github.com/capstan-dev/capstan/provider/identity"
)

const (
	// offerLife is the lifetime of the token in an offer. The agent uses it to get its own token at once.
	offerLife = time.Hour
	// acceptTimeout is the default of HandOver.Timeout.
	acceptTimeout = 2 * time.Minute
	// acceptPause is the time between two checks of what the agents report.
	acceptPause = 200 * time.Millisecond
)

// HandOver describes a hand-over: the namespace of the hosts, and the target, which is the management cluster that
// takes over their agents.
type HandOver struct {
	// Namespace is the namespace of the hosts. Required.
	Namespace string
	// To is the target's kubeconfig.
	To upstream.Kubeconfig
	// Server is the URL by which hosts reach the target's API server. Default: the kubeconfig's.
	Server string
	// CA holds the certificates, in PEM, that sign the server's certificate. Default: the kubeconfig's.
	CA []byte
	// Timeout limits the wait for the agents. Default: two minutes.
	Timeout time.Duration
	// Tell is called with progress messages. It may be nil.
	Tell func(text string)
}

// sides are the two management clusters of a move.
type sides struct {
	from, to client.Client
	// target is the UID of the target's kube-system namespace.
	target string
}

// open connects to both sides and checks that they differ.
func (c *Client) open(ctx context.Context, target upstream.Kubeconfig) (*sides, error) {
	from, err := connect(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	to, err := connect(target)
	if err != nil {
		return nil, fmt.Errorf("the target: %w", err)
	}
	fromID, err := clusterID(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("asking the source which cluster it is: %w", err)
	}
	toID, err := clusterID(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("asking the target which cluster it is: %w", err)
	}
	if fromID == toID {
		return nil, fmt.Errorf("source and target are the same management cluster: %s leads to where the clusters already "+
			"are", target.Path)
	}
	return &sides{from: from, to: to, target: string(toID)}, nil
}

// HandOver offers the target to the agent of each claimed host and waits until all agents are handed over
// (docs/moving.md). It may be repeated: it skips agents that have already accepted this target and those that a person
// has vouched for.
func (c *Client) HandOver(ctx context.Context, h HandOver) error {
	if h.Namespace == "" {
		return errNoNamespace
	}
	settings, err := restConfig(h.To)
	if err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	server, ca, err := h.reach(settings)
	if err != nil {
		return err
	}
	s, err := c.open(ctx, h.To)
	if err != nil {
		return err
	}
	hosts := &infrav1.CapstanHostList{}
	if err := s.from.List(ctx, hosts, client.InNamespace(h.Namespace)); err != nil {
		if noMatch(err) {
			return nil // Capstan is not installed
		}
		return fmt.Errorf("listing hosts: %w", err)
	}
	if err := local(hosts.Items); err != nil {
		return err
	}
	enrolment := sync.OnceValue(func() string { return h.enrolment(ctx, server, ca) })
	for i := range hosts.Items {
		host := &hosts.Items[i]
		if !wants(host) {
			continue
		}
		secret := &corev1.Secret{}
		if err := s.from.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Name + infrav1.OfferSecretSuffix},
			secret); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the offer of host %s: %w", host.Name, err)
		}
		if stands(host, secret.Data, s.target, server, ca) {
			continue
		}
		h.tell("offering the target to the agent of host " + host.Name)
		if err := s.offer(ctx, host, server, enrolment(), ca); err != nil {
			return fmt.Errorf("offering the target to the agent of host %s: %w", host.Name, err)
		}
	}
	return s.accepted(ctx, h)
}

func (h HandOver) tell(text string) {
	if h.Tell != nil {
		h.Tell(text)
	}
}

// reach returns the URL and the certificates by which agents reach the target.
func (h HandOver) reach(settings *rest.Config) (server string, ca []byte, err error) {
	if err := rest.LoadTLSFiles(settings); err != nil {
		return "", nil, fmt.Errorf("reading the certificates of the target's kubeconfig: %w", err)
	}
	server, ca = strings.TrimRight(h.Server, "/"), h.CA
	if server == "" {
		server = strings.TrimRight(settings.Host, "/")
		if settings.ServerName != "" {
			return "", nil, errors.New("the target's kubeconfig sets tls-server-name, but agents verify the host of " +
				"the URL: use --agent-server to give a URL whose host is in the certificate")
		}
	}
	if len(ca) == 0 {
		ca = settings.CAData
	}
	if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" {
		return "", nil, fmt.Errorf("agents need the URL of the target, like https://10.0.0.1:6443, not %q: set it with "+
			"--agent-server", server)
	}
	if len(ca) == 0 {
		return "", nil, errors.New("the target's kubeconfig has no certificate authority, and agents trust no server " +
			"without one: name a file with --agent-ca")
	}
	return server, ca, nil
}

// wants reports whether the agent of a host gets an offer. There is no offer if nothing moves, if somebody has vouched
// for the agent, or if the agent may already have changed sides.
func wants(host *infrav1.CapstanHost) bool {
	vouched := handover.HandedOver(host) && host.Offer() == ""
	return host.Spec.Claim != nil && host.Spec.Supplier == "" && !vouched && !handover.Leaving(host)
}

// stands reports whether the agent's acceptance of this target is still valid.
func stands(host *infrav1.CapstanHost, offer map[string][]byte, target, server string, ca []byte) bool {
	return host.Offer() != "" && host.OfferAccepted() && string(offer[infrav1.OfferIDKey]) == host.Offer() &&
		string(offer[infrav1.OfferTargetKey]) == target &&
		string(offer[infrav1.OfferServerKey]) == server && bytes.Equal(offer[infrav1.OfferCAKey], ca)
}

// offer creates the agent's account in the target and offers it to the agent. Each step can be repeated. It writes the
// Secret first, so that a call-off can find and remove everything created later.
func (s *sides) offer(ctx context.Context, host *infrav1.CapstanHost, server, enrolment string, ca []byte) error {
	there, err := s.arrival(ctx, host)
	if err != nil {
		return err
	}
	data := map[string][]byte{
		infrav1.OfferIDKey:     []byte(infrav1.OfferID(host.UID, rand.Text(), server, string(ca))),
		infrav1.OfferServerKey: []byte(server), infrav1.OfferCAKey: ca, infrav1.OfferTargetKey: []byte(s.target),
	}
	if enrolment != "" {
		data[infrav1.OfferEnrolmentKey] = []byte(enrolment)
	}
	if err := s.record(ctx, host, data); err != nil {
		return err
	}
	token, err := s.account(ctx, host, there)
	if err != nil {
		return err
	}
	data[infrav1.OfferTokenKey] = []byte(token)
	if err := s.record(ctx, host, data); err != nil {
		return err
	}
	claim := host.Spec.Claim.ProviderID
	return s.edit(ctx, host, func(now *infrav1.CapstanHost) error {
		if now.Spec.Claim == nil || now.Spec.Claim.ProviderID != claim {
			return errors.New("its machine changed in the meantime: try again")
		}
		handover.Offer(now, string(data[infrav1.OfferIDKey]))
		return nil
	})
}

// record writes the Secret of an offer. The next offer overwrites a Secret that no host refers to. A Secret of the same
// name that does not belong to the host stays unchanged.
func (s *sides) record(ctx context.Context, host *infrav1.CapstanHost, data map[string][]byte) error {
	owner := metav1ac.OwnerReference().WithAPIVersion(infrav1.GroupVersion.String()).WithKind("CapstanHost").
		WithName(host.Name).WithUID(host.UID).WithController(true)
	secret := corev1ac.Secret(host.Name+infrav1.OfferSecretSuffix, host.Namespace).
		WithLabels(map[string]string{agentid.Label: host.Name}).WithOwnerReferences(owner).WithType(corev1.SecretTypeOpaque).
		WithData(data)
	err := agentid.Ensure(ctx, s.from, s.from, host, []runtime.ApplyConfiguration{secret})
	if err != nil {
		return fmt.Errorf("writing the offer: %w", err)
	}
	return nil
}

// arrival returns the host in the target if an interrupted move left it there, else the host as it will arrive.
func (s *sides) arrival(ctx context.Context, host *infrav1.CapstanHost) (*infrav1.CapstanHost, error) {
	there := &infrav1.CapstanHost{}
	switch err := s.to.Get(ctx, client.ObjectKeyFromObject(host), there); {
	case noMatch(err):
		return nil, errors.New("the target has no Capstan: run clusterctl init --infrastructure capstan there")
	case apierrors.IsNotFound(err):
		return &infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name},
			Spec:       infrav1.CapstanHostSpec{Epoch: host.Spec.Epoch},
		}, nil
	case err != nil:
		return nil, fmt.Errorf("looking for the host in the target: %w", err)
	case there.Spec.Claim == nil || there.Spec.Claim.ProviderID != host.Spec.Claim.ProviderID:
		return nil, errors.New("the target already has a host of that name, for another machine: delete that host " +
			"in the target")
	}
	return there, nil
}

// account creates what the agent needs in the target, under the names that the target's controller uses for it, and
// returns a token.
func (s *sides) account(ctx context.Context, host, there *infrav1.CapstanHost) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: host.Namespace}}
	if err := s.to.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("making the namespace in the target: %w", err)
	}
	if err := agentid.Ensure(ctx, s.to, s.to, there, agentid.Objects(there)); err != nil {
		return "", fmt.Errorf("making its account in the target: %w", err)
	}
	if err := epoch.Begin(ctx, s.to, s.to, there); err != nil {
		return "", fmt.Errorf("beginning its epoch in the target: %w", err)
	}
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: infrav1.IdentityPrefix + host.Name},
	}
	request := epoch.TokenRequest(there, offerLife)
	if err := s.to.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("getting a token in the target: %w", err)
	}
	return request.Status.Token, nil
}

// edit changes the current version of a host in the source.
func (s *sides) edit(ctx context.Context, host *infrav1.CapstanHost,
	change func(now *infrav1.CapstanHost) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now := &infrav1.CapstanHost{}
		if err := s.from.Get(ctx, client.ObjectKeyFromObject(host), now); err != nil {
			return err
		}
		before := now.DeepCopy()
		if err := change(now); err != nil {
			return err
		}
		return s.from.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// accepted waits until no host blocks the move because of its agent.
func (s *sides) accepted(ctx context.Context, h HandOver) error {
	if h.Timeout <= 0 {
		h.Timeout = acceptTimeout
	}
	return s.wait(ctx, h.Namespace, h.Timeout, func(hosts []infrav1.CapstanHost) error {
		why := waitsFor(hosts)
		if len(why) == 0 {
			return nil
		}
		text := fmt.Sprintf("agents have not accepted the target within %s:\n  %s", h.Timeout, strings.Join(why, "\n  "))
		if commands := vouch(hosts); len(commands) > 0 {
			text += "\nIf you hand the agent over yourself (docs/clusterctl.md), say so:\n  " + strings.Join(commands, "\n  ")
		}
		return errors.New(text)
	})
}

// waitsFor says why each host that would block the move is not ready to move.
func waitsFor(hosts []infrav1.CapstanHost) []string {
	var all []string
	for i := range hosts {
		host := &hosts[i]
		if host.Spec.Claim == nil || handover.Leaving(host) || handover.HandedOver(host) && !handover.Held(host) {
			continue
		}
		why := "its agent has not answered: it is off, or too old for hand-overs"
		switch report := host.Status.Agent; {
		case host.OfferAccepted() || handover.HandedOver(host):
			why = "the provider has not noticed yet: is it running?"
		case report != nil && report.HandOver != nil && report.HandOver.Offer == host.Offer() &&
			report.HandOver.Message != "":
			why = report.HandOver.Message
		}
		all = append(all, fmt.Sprintf("host %s: %s", host.Name, why))
	}
	return all
}

// wait lists the hosts of a namespace in the source until check returns nil. At the limit, it returns the last error.
func (s *sides) wait(ctx context.Context, namespace string, limit time.Duration,
	check func([]infrav1.CapstanHost) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		hosts := &infrav1.CapstanHostList{}
		err := s.from.List(ctx, hosts, client.InNamespace(namespace))
		if err == nil {
			err = check(hosts.Items)
		}
		if err == nil {
			return nil
		}
		if backoff.Sleep(ctx, acceptPause) != nil {
			return err
		}
	}
}
