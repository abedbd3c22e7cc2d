//go:build linux

package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/epoch"
)

// liveDock supplies hosts that consist only of an agent: a goroutine with the token and the rights of an agent, which
// sends the same requests to the API server as an agent.
type liveDock struct {
	t      *testing.T
	scheme *runtime.Scheme

	mu       sync.Mutex
	agents   map[string]*liveAgent
	backends map[string][]string
}

type liveAgent struct {
	client client.WithWatch
	stop   context.CancelFunc
	ended  chan struct{}
}

func (d *liveDock) Versions() []string { return []string{"v1.36.3"} }

func (d *liveDock) PowerOn(_ context.Context, host string, config []byte) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.agents[host] != nil {
		return address(host), nil
	}
	c := struct {
		Server, Namespace, Host, Token string
		CAData                         []byte
		Local                          bool
	}{}
	if err := yaml.Unmarshal(config, &c); err != nil {
		return "", err
	}
	if c.Host != host || c.Namespace != ns || !c.Local {
		return "", fmt.Errorf("host %s got the configuration of %s/%s", host, c.Namespace, c.Host)
	}
	api, err := client.NewWithWatch(&rest.Config{
		Host: c.Server, BearerToken: c.Token, TLSClientConfig: rest.TLSClientConfig{CAData: c.CAData},
	}, client.Options{Scheme: d.scheme})
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(context.Background())
	a := &liveAgent{client: api, stop: stop, ended: make(chan struct{})}
	d.agents[host] = a
	go func() {
		defer close(a.ended)
		if err := a.run(ctx, host); err != nil && ctx.Err() == nil {
			d.t.Errorf("agent of %s: %v", host, err)
		}
	}()
	return address(host), nil
}

func (d *liveDock) Destroy(_ context.Context, host string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.agents[host]; a != nil {
		a.stop()
		<-a.ended
		delete(d.agents, host)
	}
	return nil
}

func (d *liveDock) List(context.Context) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.agents)), nil
}

func (d *liveDock) Ensure(_ context.Context, cluster types.NamespacedName) (string, int32, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.backends[cluster.Name] == nil {
		d.backends[cluster.Name] = []string{}
	}
	return "10.231.16.1", 6443, nil
}

func (d *liveDock) SetBackends(_ context.Context, cluster types.NamespacedName, to []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.backends[cluster.Name] = to
	return nil
}

func (d *liveDock) Delete(_ context.Context, cluster types.NamespacedName) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.backends, cluster.Name)
	return nil
}

func (d *liveDock) backendsOf(cluster string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.backends[cluster]
}

// client returns the API client of a host's agent.
func (d *liveDock) client(host string) client.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.agents[host].client
}

// end stops all agents.
func (d *liveDock) end() {
	names, _ := d.List(context.Background())
	for _, name := range names {
		_ = d.Destroy(context.Background(), name)
	}
}

// run sends a heartbeat, watches its own host, and reports.
func (a *liveAgent) run(ctx context.Context, host string) error {
	if err := beat(ctx, a.client, host); err != nil {
		return err
	}
	if err := a.report(ctx, host, nil); err != nil {
		return err
	}
	events, err := a.client.Watch(ctx, &infrav1.CapstanHostList{}, client.InNamespace(ns),
		&client.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", host)})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer events.Stop()
	done := ""
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-events.ResultChan():
			if !open {
				return fmt.Errorf("the watch of %s ended", host)
			}
			h, ok := e.Object.(*infrav1.CapstanHost)
			if !ok || h.Spec.Claim == nil || !h.Spec.Claim.BootstrapReady || h.Spec.Claim.Released ||
				h.Spec.Claim.ProviderID == done {
				continue
			}
			secret, err := a.data(ctx, host, h.Spec.Claim.ProviderID)
			if err != nil {
				return fmt.Errorf("reading the bootstrap data: %w", err)
			}
			if got := string(secret.Data["value"]); got != "data of "+h.Spec.Claim.Machine {
				return fmt.Errorf("%q is not the data of machine %s", got, h.Spec.Claim.Machine)
			}
			done = h.Spec.Claim.ProviderID
			times := map[string]any{"startTime": time.Now().UTC().Format(time.RFC3339)}
			for _, phase := range []infrav1.BootstrapPhase{infrav1.BootstrapRunning, infrav1.BootstrapSucceeded} {
				report := maps.Clone(times)
				report["providerID"], report["phase"] = done, string(phase)
				times["completionTime"] = times["startTime"]
				if err := a.report(ctx, host, report); err != nil {
					return err
				}
			}
		}
	}
}

// data waits for the bootstrap data of a claim, as agents do.
func (a *liveAgent) data(ctx context.Context, host, providerID string) (*corev1.Secret, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		secret := &corev1.Secret{}
		err := a.client.Get(ctx, types.NamespacedName{Namespace: ns, Name: host + infrav1.BootstrapSecretSuffix}, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil && strings.Contains(string(secret.Data["metadata"]), providerID) {
			return secret, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *liveAgent) report(ctx context.Context, host string, bootstrap map[string]any) error {
	agent := map[string]any{"address": address(host)}
	if bootstrap != nil {
		agent["bootstrap"] = bootstrap
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": infrav1.GroupVersion.String(), "kind": "CapstanHost",
		"metadata": map[string]any{"namespace": ns, "name": host},
		"status":   map[string]any{"agent": agent},
	}}
	err := a.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("capstan-agent"),
		client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("reporting: %w", err)
	}
	return nil
}

// beat renews the Lease of a host.
func beat(ctx context.Context, c client.Client, host string) error {
	lease := &coordinationv1.Lease{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: ns, Name: host}, lease); err != nil {
		return fmt.Errorf("reading the Lease: %w", err)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	if err := c.Update(ctx, lease); err != nil {
		return fmt.Errorf("renewing the Lease: %w", err)
	}
	return nil
}

// tokenFor requests a token.
func tokenFor(ctx context.Context, c client.Client, account string) (string, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(3600))},
	}
	err := c.SubResource("token").Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account},
	}, request)
	return request.Status.Token, err
}

// renew requests a token of the host's current epoch, as its agent does.
func renew(ctx context.Context, c client.Client, host *infrav1.CapstanHost) error {
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: infrav1.IdentityPrefix + host.Name},
	}
	return c.SubResource("token").Create(ctx, account, epoch.TokenRequest(host, time.Hour))
}
