package addon

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/finding"
)

// announcer creates Events for Clusters. It only logs failures, because the answer to the hook contains the message,
// too.
type announcer struct {
	writer client.Writer // nil creates no Events
	log    *slog.Logger
	now    func() time.Time
}

// again creates an Event on every call.
func (a announcer) again(ctx context.Context, cluster *clusterv1.Cluster, found finding.Finding) bool {
	return a.make(ctx, cluster, metav1.ObjectMeta{GenerateName: cluster.Name + "."}, found)
}

// once creates an Event unless one with the same content exists, so that repeated calls for a Cluster do not repeat the
// Event. It returns false if the Event exists already.
func (a announcer) once(ctx context.Context, cluster *clusterv1.Cluster, found finding.Finding) bool {
	sum := sha256.Sum256([]byte(string(cluster.UID) + "/" + found.Reason + "/" + found.Message))
	return a.make(ctx, cluster, metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", cluster.Name, sum[:8])}, found)
}

func (a announcer) make(
	ctx context.Context, cluster *clusterv1.Cluster, name metav1.ObjectMeta, found finding.Finding,
) (isNew bool) {
	if a.writer == nil {
		return true
	}
	now := metav1.NewTime(a.now())
	name.Namespace = cluster.Namespace
	err := a.writer.Create(ctx, &corev1.Event{
		ObjectMeta: name,
		InvolvedObject: corev1.ObjectReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name,
			UID: cluster.UID,
		},
		Type: corev1.EventTypeWarning, Reason: found.Reason, Message: found.Message,
		Source: corev1.EventSource{Component: "capstan-extension"}, ReportingController: "capstan.dev/extension",
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	})
	if apierrors.IsAlreadyExists(err) {
		return false
	}
	if err != nil {
		a.log.WarnContext(ctx, "An Event could not be created",
			"cluster", cluster.Namespace+"/"+cluster.Name, "reason", found.Reason, "error", err)
	}
	return true
}
