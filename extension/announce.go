package extension

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// announcer makes Events of Clusters. An Event that can't be made is logged: what it is about is in the answer, too.
type announcer struct {
	writer client.Writer // nil makes none
	log    *slog.Logger
	now    func() time.Time
}

func (a announcer) warn(ctx context.Context, cluster *clusterv1.Cluster, reason, message string) {
	if a.writer == nil {
		return
	}
	now := metav1.NewTime(a.now())
	err := a.writer.Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: cluster.Name + ".", Namespace: cluster.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name, UID: cluster.UID,
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		Source: corev1.EventSource{Component: "capstan-extension"}, ReportingController: "capstan.dev/extension",
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	})
	if err != nil {
		a.log.WarnContext(ctx, "An Event could not be made", "cluster", cluster.Namespace+"/"+cluster.Name, "reason", reason, "error", err)
	}
}
