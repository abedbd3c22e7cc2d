package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Options configures Run. The zero value works.
type Options struct {
	// Pods are the ranges from which the cluster's Nodes get theirs. Run adds no routes to a range outside them. If
	// Pods is empty, any range is allowed.
	Pods []netip.Prefix
	// Repair is the interval at which Run checks the kernel without a change of the Nodes; 0 means 30 seconds.
	Repair time.Duration
	// Log receives messages about changes; nil means slog.Default.
	Log *slog.Logger
}

// Delays of Run.
const (
	repairDefault = 30 * time.Second
	settle        = 100 * time.Millisecond // merges several changes into one
	retryFirst    = time.Second
	retryLast     = 30 * time.Second
)

// Run maintains the routes of the Node nodeName to the pods of other Nodes, in this process's network namespace, until
// ctx ends. The routes stay afterwards. Run needs permission only to list and watch Nodes. It logs and retries errors
// of the kernel, and returns an error only if it can't begin.
func Run(ctx context.Context, client kubernetes.Interface, nodeName string, opts Options) error {
	if nodeName == "" {
		return errors.New("routes to other Nodes: the name of this Node is missing")
	}
	opts.Log = cmp.Or(opts.Log, slog.Default())
	opts.Repair = cmp.Or(opts.Repair, repairDefault)
	k, err := openKernel()
	if err != nil {
		return err
	}
	defer k.close()
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Nodes().Informer()
	if err := informer.SetTransform(strip); err != nil {
		return fmt.Errorf("watching Nodes: %w", err)
	}
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal() },
		DeleteFunc: func(any) { signal() },
		UpdateFunc: func(before, now any) {
			if !reflect.DeepEqual(nodeOf(before), nodeOf(now)) {
				signal()
			}
		},
	}); err != nil {
		return fmt.Errorf("watching Nodes: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil // ctx has ended
	}
	c := &controller{kernel: k, self: nodeName, opts: opts}
	c.loop(ctx, changed, func() []Node {
		var nodes []Node
		for _, obj := range informer.GetStore().List() {
			nodes = append(nodes, nodeOf(obj))
		}
		return nodes
	})
	return nil
}

// controller brings the kernel into the state that the Nodes require.
type controller struct {
	kernel  *kernel
	self    string
	opts    Options
	refused []Refusal // the refusals that were logged last
}

func (c *controller) loop(ctx context.Context, changed <-chan struct{}, nodes func() []Node) {
	retry := retryFirst
	for {
		wait := c.opts.Repair
		if err := c.once(nodes()); err != nil {
			c.opts.Log.Error("keeping routes to other Nodes", "error", err, "again", retry)
			wait = retry
			retry = min(2*retry, retryLast)
		} else {
			retry = retryFirst
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			continue
		case <-changed:
		}
		timer.Reset(settle)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

func (c *controller) once(nodes []Node) error {
	want, refused, ok := Plan(c.self, c.opts.Pods, nodes)
	if !slices.Equal(refused, c.refused) {
		for _, r := range refused {
			c.opts.Log.Warn("no routes", "node", r.Node, "reason", r.Reason)
		}
		c.refused = refused
	}
	if !ok {
		return nil // the kubelet has not reported this Node's address yet; when it does, sync runs again
	}
	changes, err := c.kernel.apply(want)
	for _, change := range changes {
		c.opts.Log.Info("routes", "change", change.String())
	}
	return err
}

// strip keeps only what nodeOf reads of a Node.
func strip(obj any) (any, error) {
	node, is := obj.(*corev1.Node)
	if !is {
		return obj, nil
	}
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, CreationTimestamp: node.CreationTimestamp,
	}}
	kept.Spec.PodCIDR, kept.Spec.PodCIDRs = node.Spec.PodCIDR, node.Spec.PodCIDRs
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			kept.Status.Addresses = append(kept.Status.Addresses, a)
		}
	}
	return kept, nil
}

// nodeOf returns the network of a Node. It omits what it can't parse.
func nodeOf(obj any) Node {
	node, is := obj.(*corev1.Node)
	if !is {
		return Node{}
	}
	n := Node{Name: node.Name, Created: node.CreationTimestamp.Time}
	for _, a := range node.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if a.Type == corev1.NodeInternalIP && err == nil && ip.Is4() && !n.Address.IsValid() {
			n.Address = ip
		}
	}
	ranges := node.Spec.PodCIDRs
	if len(ranges) == 0 && node.Spec.PodCIDR != "" {
		ranges = []string{node.Spec.PodCIDR}
	}
	for _, text := range ranges {
		if r, err := netip.ParsePrefix(text); err == nil {
			n.Ranges = append(n.Ranges, r.Masked())
		}
	}
	return n
}
