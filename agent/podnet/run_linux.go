package podnet

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// repair is how often everything is checked although no Node has changed: something else may have changed this
	// computer.
	repair = 30 * time.Second
	// settle is how long changes of Nodes are collected before they are applied.
	settle = 200 * time.Millisecond
)

// Options configure Run.
type Options struct {
	// Name is the name of the Node. Required.
	Name string
	// Pods is the range of all pods of the cluster. Required.
	Pods netip.Prefix
	// Log receives what happens. Required.
	Log *slog.Logger
}

// Run keeps this computer's network as its cluster's Nodes need it, until ctx ends. It leaves the network in place, so
// that pods keep working while this program is upgraded.
func Run(ctx context.Context, client kubernetes.Interface, o Options) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes()
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { signal() }, UpdateFunc: func(any, any) { signal() }, DeleteFunc: func(any) { signal() },
	}); err != nil {
		return fmt.Errorf("watching Nodes: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced) {
		return ctx.Err()
	}
	last := ""
	for {
		list, err := nodes.Lister().List(labels.Everything())
		if err != nil {
			return fmt.Errorf("listing Nodes: %w", err)
		}
		said, err := o.once(list)
		if err != nil {
			said = err.Error()
			o.Log.Error("The pod network is incomplete", "error", err)
		} else if said != last {
			o.Log.Info("The pod network is complete", "state", said)
		}
		last = said
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			wait(ctx, settle)
		case <-time.After(repair):
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// once applies what the current Nodes require. It returns the resulting state for the log.
func (o Options) once(list []*corev1.Node) (string, error) {
	var all []Node
	for _, n := range list {
		all = append(all, known(n))
	}
	d, ok := Plan(o.Name, nil, all)
	if !ok {
		return "this Node has no address or no pod range yet", nil
	}
	segments, own, err := Segments(d.Self.Address)
	if err != nil {
		return "", err
	}
	d, _ = Plan(o.Name, segments, all)
	return fmt.Sprintf("%s, %d other Nodes, tunnel %t", d.Self.Range, len(d.Routes), d.Tunneled()), d.Apply(own, o.Pods)
}

// known returns the properties of a Node that matter here. Pure.
func known(n *corev1.Node) Node {
	out := Node{Name: n.Name}
	for _, a := range n.Status.Addresses {
		if parsed, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && parsed.Is4() &&
			!out.Address.IsValid() {
			out.Address = parsed
		}
	}
	for _, text := range append([]string{n.Spec.PodCIDR}, n.Spec.PodCIDRs...) {
		if parsed, err := netip.ParsePrefix(text); err == nil && parsed.Addr().Is4() && !out.Range.IsValid() {
			out.Range = parsed
		}
	}
	return out
}
