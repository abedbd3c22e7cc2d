package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestARecreatedClusterLosesItsConnection looks at Clusters in the order in which the cluster cache does.
func TestARecreatedClusterLosesItsConnection(t *testing.T) {
	names := &recreated{}
	queue := names.options(controller.Options{}).NewQueue("test",
		workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	for i, look := range []struct {
		name, uid string
		same      bool
	}{
		{"one", "1", true},
		{"one", "1", true},
		{"two", "2", true},
		{"one", "3", false}, // deleted and created between two looks
		{"one", "3", true},
		{"two", "2", true},
	} {
		c := &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: look.name, UID: types.UID(look.uid)},
		}
		if got := names.same(c); got != look.same {
			t.Fatalf("look %d, at Cluster %s with uid %s: same is %v, want %v", i+1, look.name, look.uid, got, look.same)
		}
		if look.same {
			continue
		}
		item, stopped := queue.Get() // the cache must look again, because it does not after a filter has returned false
		if stopped || item.NamespacedName != client.ObjectKeyFromObject(c) {
			t.Errorf("the queue has %s, want %s", item, client.ObjectKeyFromObject(c))
		}
		queue.Done(item)
	}
	if n := queue.Len(); n != 0 {
		t.Errorf("the queue still has %d items", n)
	}
}

func TestNamesOfDeletedClustersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := &recreated{}
		look := func(name string) {
			names.same(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
		}
		look("deleted")
		look("kept")
		time.Sleep(seenFor)
		look("kept")
		time.Sleep(time.Second)
		look("new")
		if _, still := names.seen[client.ObjectKey{Name: "deleted"}]; still || len(names.seen) != 2 {
			t.Errorf("remembered: %v", names.seen)
		}
	})
}
