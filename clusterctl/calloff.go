package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/epoch"
	"github.com/capstan-dev/capstan/provider/handover"
	agentid "github.com/capstan-dev/capstan/provider/identity"
)

// CallOff withdraws the offers that HandOver made to the agents of a namespace, waits until the agents have dropped
// them, and returns how many there were. It also removes what was created for them in the target, unless the host has
// arrived there. CallOff may be repeated. It fails for a host that a mover is about to delete; finish the move instead.
func (c *Client) CallOff(ctx context.Context, h HandOver) (offers int, err error) {
	if h.Namespace == "" {
		return 0, errNoNamespace
	}
	s, err := c.open(ctx, h.To)
	if err != nil {
		return 0, err
	}
	return s.callOff(ctx, h)
}

func (s *sides) callOff(ctx context.Context, h HandOver) (offers int, err error) {
	hosts := &infrav1.CapstanHostList{}
	if err := s.from.List(ctx, hosts, client.InNamespace(h.Namespace)); err != nil {
		if noMatch(err) {
			return 0, nil // Capstan is not installed
		}
		return 0, fmt.Errorf("listing hosts: %w", err)
	}
	for i := range hosts.Items {
		host := &hosts.Items[i]
		if handover.Leaving(host) {
			return 0, fmt.Errorf("host %s is on its way to the target: run capstan clusterctl move again, which finishes the "+
				"move", host.Name)
		}
	}
	for i := range hosts.Items {
		host := &hosts.Items[i]
		offered, err := s.offered(ctx, host)
		if err != nil {
			return offers, err
		}
		if !offered {
			continue
		}
		h.tell("calling off the offer to the agent of host " + host.Name)
		if err := s.callOffHost(ctx, host); err != nil {
			return offers, fmt.Errorf("calling off the offer to the agent of host %s: %w", host.Name, err)
		}
		offers++
	}
	if h.Timeout <= 0 {
		h.Timeout = acceptTimeout
	}
	return offers, s.wait(ctx, h.Namespace, h.Timeout, func(hosts []infrav1.CapstanHost) error {
		return forgotten(hosts, h.Timeout)
	})
}

// offered reports whether there is something to call off. That is the case if the host has an offer, or if an
// interrupted HandOver or CallOff has left a Secret with an offer of this target.
func (s *sides) offered(ctx context.Context, host *infrav1.CapstanHost) (bool, error) {
	if host.Annotations[infrav1.OfferAnnotation] != "" {
		return true, nil
	}
	secret := &corev1.Secret{}
	err := s.from.Get(ctx, client.ObjectKey{
		Namespace: host.Namespace, Name: host.Name + infrav1.OfferSecretSuffix,
	}, secret)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the offer of host %s: %w", host.Name, err)
	}
	return err == nil && string(secret.Data[infrav1.OfferTargetKey]) == s.target, nil
}

// forgotten fails while an agent holds an offer that its host no longer has.
func forgotten(hosts []infrav1.CapstanHost, limit time.Duration) error {
	var names []string
	for i := range hosts {
		if host := &hosts[i]; host.Offer() == "" && host.OfferAccepted() {
			names = append(names, host.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("the offers are called off, but the agents of these hosts have not noticed within %s: %s; they "+
		"will "+
		"as soon as they are back",
		limit, strings.Join(names, ", "))
}

// callOffHost calls off the offer to one host. Each step can be repeated. It deletes the Secret last, because the
// Secret shows that there is something left to do.
func (s *sides) callOffHost(ctx context.Context, host *infrav1.CapstanHost) error {
	err := s.edit(ctx, host, func(now *infrav1.CapstanHost) error {
		if handover.Leaving(now) {
			return errors.New("it is on its way to the target: run capstan clusterctl move again, which finishes the move")
		}
		handover.CallOff(now)
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.clear(ctx, host); err != nil {
		return err
	}
	if err := agentid.RemoveSecret(ctx, s.from, s.from, host, host.Name+infrav1.OfferSecretSuffix); err != nil {
		return fmt.Errorf("deleting the offer: %w", err)
	}
	return nil
}

// clear removes what an offer created in the target, but nothing of a host that has arrived there, and nothing that
// others created.
func (s *sides) clear(ctx context.Context, host *infrav1.CapstanHost) error {
	switch err := s.to.Get(ctx, client.ObjectKeyFromObject(host), &infrav1.CapstanHost{}); {
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err) && !noMatch(err):
		return fmt.Errorf("looking for the host in the target: %w", err)
	}
	expected := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}}
	if err := agentid.Remove(ctx, s.to, s.to, expected); err != nil {
		return fmt.Errorf("removing its account in the target: %w", err)
	}
	expected.Spec.Epoch = host.Spec.Epoch
	if err := epoch.End(ctx, s.to, s.to, expected, host.Spec.Epoch); err != nil {
		return fmt.Errorf("removing its account in the target: %w", err)
	}
	return nil
}
