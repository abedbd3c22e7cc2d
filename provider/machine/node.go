package machine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/step"
)

const (
	// nodeLimit is how long a deletion tries to reach the workload cluster. The machine's replacement does not wait for
	// this.
	nodeLimit = 5 * time.Minute
	// nodePause is the time between two attempts.
	nodePause = 2 * time.Second
)

// Nodes deletes Nodes of workload clusters.
type Nodes interface {
	// Delete deletes the named Node of a cluster if it has this provider id. It returns nil if there is no such Node.
	Delete(ctx context.Context, cluster client.ObjectKey, name, providerID string) error
}

// removeNode deletes the Node of a machine whose Machine has no nodeRef. A kubelet registers its Node before kubeadm
// finishes. If the bootstrap fails after that, or the machine is deleted in between, Cluster API has no nodeRef.
// Cluster API then looks once for a Node with the machine's provider id, and gives up if the API server does not
// answer. The provider id is written only after the bootstrap. Without this step the Node would stay NotReady for as
// long as the cluster exists.
//
// This step comes after the release, because a running kubelet could register its Node again.
func (r *Reconciler) removeNode(ctx context.Context, s *scope) (step.Answer, error) {
	if r.Nodes == nil || !mayHaveNode(s) {
		return step.Next(), nil
	}
	id := claim.ProviderID(s.capstan.Namespace, s.capstan.Status.Host, s.capstan.UID)
	err := r.Nodes.Delete(ctx, client.ObjectKeyFromObject(s.owningCluster), s.capstan.Name, id)
	switch {
	case err == nil:
		return step.Next(), nil
	case ctx.Err() != nil:
		return step.Answer{}, err
	case r.Clock.Since(s.capstan.DeletionTimestamp.Time) > nodeLimit:
		r.Recorder.Eventf(s.capstan, nil, "Warning", infrav1.NodeLeftEvent, "Delete",
			"Node %s of this machine may still exist in cluster %s: %v", s.capstan.Name, s.owningCluster.Name, err)
		return step.Next(), nil
	}
	ctrl.LoggerFrom(ctx).V(2).Info("The Node can't be deleted yet", "reason", err.Error())
	s.waiting = fmt.Sprintf("the API server of cluster %s does not answer: trying for up to %[3]s to delete Node %[2]s",
		s.owningCluster.Name, s.capstan.Name, nodeLimit)
	return step.StopFor(nodePause), nil
}

// mayHaveNode reports whether a machine that is being deleted may have a Node that nobody else deletes.
func mayHaveNode(s *scope) bool {
	return s.machine != nil && !s.machine.Status.NodeRef.IsDefined() && s.capstan.Status.Host != "" &&
		s.owningCluster != nil && s.owningCluster.DeletionTimestamp.IsZero() &&
		ptr.Deref(s.owningCluster.Status.Initialization.ControlPlaneInitialized, false)
}
