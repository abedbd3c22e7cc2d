package topology

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// SharedNamespace is the namespace of a plane's own ClusterClass, which clusters in all namespaces may use.
const SharedNamespace = "default"

// FindClass returns the request with the namespace of its class: the Cluster's namespace if it has such a class, else
// [SharedNamespace]. It keeps a namespace that the request already names.
func (r Request) FindClass(ctx context.Context, c client.Reader) (Request, error) {
	if r.ClassNamespace != "" {
		return r, nil
	}
	for _, namespace := range []string{r.Namespace, SharedNamespace} {
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.Class}, &clusterv1.ClusterClass{})
		if err == nil {
			r.ClassNamespace = namespace
			return r, nil
		}
		if !apierrors.IsNotFound(err) {
			return r, hint.Errorf("run: capstan status", "reaching the management plane: %w", err)
		}
	}
	return r, nil
}

// Check fails for a request whose cluster would wait forever: the class does not exist, or there cannot be enough hosts
// for its machines.
func (r Request) Check(ctx context.Context, c client.Reader) error {
	if err := r.checkClass(ctx, c); err != nil {
		return err
	}
	need := int(r.ControlPlane + r.Workers)
	can, err := r.hosts(ctx, c)
	for end := time.Now().Add(passes); err == nil && can.isInMotion && need > can.all() && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return fmt.Errorf("counting hosts: %w", context.Cause(ctx))
		case <-time.After(passes / 10):
		}
		can, err = r.hosts(ctx, c)
	}
	switch {
	case err != nil:
		return fmt.Errorf("listing hosts: %w", err)
	case need <= can.all():
		return nil
	}
	has := fmt.Sprintf("the inventory of namespace %s has %d", r.Namespace, can.own+can.local)
	if can.elsewhere > 0 {
		has = fmt.Sprintf("namespace %s can have %d at most: %s", r.Namespace, can.all(), can.sum())
	}
	more := "get more hosts: capstan up --hosts " + fmt.Sprint(need-can.own)
	if can.own > 0 && r.Namespace != SharedNamespace {
		more = "enroll more hosts in its namespace"
	}
	return hint.Errorf("make the cluster smaller, or "+more, "the cluster needs %d hosts and %s", need, has)
}

// checkClass checks that the class exists.
func (r Request) checkClass(ctx context.Context, c client.Reader) error {
	in := cmp.Or(r.ClassNamespace, r.Namespace)
	err := c.Get(ctx, client.ObjectKey{Namespace: in, Name: r.Class}, &clusterv1.ClusterClass{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return hint.Errorf("run: capstan status", "reaching the management plane: %w", err)
	}
	advice, err := r.classes(ctx, c)
	if err != nil {
		return hint.Errorf("run: capstan status", "reaching the management plane: %w", err)
	}
	return hint.Errorf(advice, "there is no ClusterClass %q in namespace %s", r.Class, in)
}

// classes lists the classes that exist: those in the Cluster's namespace and the shared one by name, others as
// NAMESPACE/NAME. If there are none, it says how to create one.
func (r Request) classes(ctx context.Context, c client.Reader) (string, error) {
	list := &clusterv1.ClusterClassList{}
	err := c.List(ctx, list)
	if apierrors.IsForbidden(err) { // a user who may not list all namespaces sees only their own
		err = c.List(ctx, list, client.InNamespace(r.Namespace))
	}
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(list.Items))
	for _, class := range list.Items {
		if class.Namespace == r.Namespace {
			names = append(names, class.Name)
		} else {
			names = append(names, class.Namespace+"/"+class.Name)
		}
	}
	if len(names) == 0 {
		return "there are no classes at all: make one with capstan kubectl apply, " +
			"or get the plane's own back with capstan down, then capstan up", nil
	}
	slices.Sort(names)
	return "classes that exist: " + strings.Join(names, ", "), nil
}

// passes limits how long Check waits for local hosts that are moving between two namespaces and are counted in neither.
const passes = time.Second

// canHave counts the hosts that a namespace can have.
type canHave struct {
	// own counts the hosts enrolled in the namespace, local the plane's hosts in the namespace, and elsewhere the plane's
	// hosts in other namespaces.
	own, local, elsewhere int
	// isInMotion reports whether the plane has hosts, which may be in transit between two namespaces.
	isInMotion bool
}

func (h canHave) all() int { return h.own + h.local + h.elsewhere }

func (h canHave) sum() string {
	if h.own == 0 {
		return fmt.Sprintf("all %d local hosts", h.local+h.elsewhere)
	}
	return fmt.Sprintf("%d of its own and all %d local ones", h.own, h.local+h.elsewhere)
}

// hosts counts the hosts that the request can have. Local hosts can come from other namespaces, other hosts cannot. A
// namespace with enrolled hosts gets no local hosts from elsewhere, unless it is [SharedNamespace].
func (r Request) hosts(ctx context.Context, c client.Reader) (canHave, error) {
	var can canHave
	list := &infrav1.CapstanHostList{}
	err := c.List(ctx, list)
	if apierrors.IsForbidden(err) {
		err = c.List(ctx, list, client.InNamespace(r.Namespace))
	}
	for _, host := range list.Items {
		here, local := host.Namespace == r.Namespace, host.Spec.Supplier != ""
		can.isInMotion = can.isInMotion || local
		switch {
		case here && local:
			can.local++
		case here:
			can.own++
		case local:
			can.elsewhere++
		}
	}
	if can.own > 0 && r.Namespace != SharedNamespace {
		can.elsewhere = 0
	}
	return can, err
}
