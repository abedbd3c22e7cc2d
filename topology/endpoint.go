package topology

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// EndpointLabel marks the host whose address is the endpoint of a cluster: the control plane goes there.
const EndpointLabel = "infrastructure.capstan.dev/endpoint-of"

// enrolledLabel is on hosts that have enrolled: workers don't go to local hosts, where the endpoint is not reachable.
const enrolledLabel = "infrastructure.capstan.dev/enrolled"

// endpointMark is the label's value: names of clusters are too long for one.
func (r Request) endpointMark() string {
	sum := sha256.Sum256([]byte(r.Namespace + "/" + r.Name))
	return hex.EncodeToString(sum[:16])
}

// takeEndpoint marks the control plane host, and returns the request with its address.
func (r Request) takeEndpoint(ctx context.Context, c client.Client) (Request, error) {
	host := &infrav1.CapstanHost{}
	err := c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.ControlPlaneHost}, host)
	if apierrors.IsNotFound(err) {
		return r, hint.Errorf("see: capstan host list", "there is no host %q in namespace %s", r.ControlPlaneHost,
			r.Namespace)
	}
	if err != nil {
		return r, fmt.Errorf("looking for host %s: %w", r.ControlPlaneHost, err)
	}
	if host.Spec.Claim != nil {
		return r, hint.Errorf("choose one that is Available: capstan host list", "host %s has a machine", host.Name)
	}
	if agent := host.Status.Agent; agent != nil {
		r.endpoint = agent.Address
	}
	if r.endpoint == "" {
		return r, hint.Errorf("wait until it is Available: capstan host list", "host %s has not said its address yet",
			host.Name)
	}
	before := host.DeepCopy()
	metav1.SetMetaDataLabel(&host.ObjectMeta, EndpointLabel, r.endpointMark())
	same := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, host, same); err != nil {
		return r, fmt.Errorf("marking host %s for the control plane: %w", host.Name, err)
	}
	return r, nil
}
