package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/internal/hint"
)

// controlPlaneMachine returns a ready machine of cluster blue on the host of the same letter.
func controlPlaneMachine(letter string) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.Namespace, m.Name, m.UID = "team", "m-"+letter, types.UID(letter)
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: "blue", clusterv1.MachineControlPlaneLabel: ""}
	m.Spec.InfrastructureRef.Name, m.Status.NodeRef.Name = "infra-"+letter, "node-"+letter
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue}}
	return m
}

// plane returns a management cluster with cluster blue, which has three control plane machines on hosts a, b and d.
func plane(t *testing.T, funcs interceptor.Funcs) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, controlplanev1.AddToScheme,
		infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	controlPlane := &controlplanev1.KubeadmControlPlane{}
	controlPlane.Namespace, controlPlane.Name, controlPlane.Spec.Replicas = "team", "blue-cp", ptr.To[int32](3)
	objects := []client.Object{controlPlane}
	for _, letter := range []string{"a", "b", "d"} {
		h := &infrav1.CapstanHost{}
		h.Namespace, h.Name = "team", letter
		h.Spec.Claim = &infrav1.HostClaim{Cluster: "blue", ControlPlane: true, Machine: "infra-" + letter}
		objects = append(objects, h, controlPlaneMachine(letter))
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

// options returns options with which a restore of cluster blue succeeds.
func options(t *testing.T) Options {
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name, cluster.Spec.ControlPlaneRef.Name = "team", "blue", "blue-cp"
	hosts := newFakeHosts("a", "b", "d")
	return Options{
		Plane:   plane(t, interceptor.Funcs{}),
		Cluster: cluster,
		Hosts:   hosts,
		Store: fakeStore{
			manifest: backup.Manifest{Name: "monday", Cluster: "blue", Authorities: map[string]string{"etcd": "1234"}},
		},
		Access: func(context.Context) (*backup.Access, error) {
			return &backup.Access{Config: &rest.Config{}, Fingerprints: map[string]string{"etcd": "1234"}}, nil
		},
	}
}

func TestPrepare(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*Options)
		want, note string
	}{
		"everything is there":          {func(*Options) {}, "", ""},
		"a backup by name":             {func(o *Options) { o.Backup = "monday" }, "", ""},
		"a backup that does not exist": {func(o *Options) { o.Backup = "sunday" }, `it has no backup "sunday"`, ""},
		"another backup is damaged": {func(o *Options) { o.Store = fakeStore{damaged: backup.ErrDamaged} }, "",
			"Left out: backups are damaged"},
		"a store that can't be read": {func(o *Options) { o.Store = fakeStore{damaged: errFake} },
			errFake.Error(), ""},
		"a cluster that can't be reached": {
			func(o *Options) { o.Access = func(context.Context) (*backup.Access, error) { return nil, errFake } },
			errFake.Error(), "",
		},
		"a host that does not answer": {func(o *Options) { o.Hosts.(*fakeHosts).fail = 2 },
			"host b: the host does not answer", ""},
		"a cluster that is paused": {func(o *Options) { o.Cluster.Spec.Paused = ptr.To(true) }, "is paused", ""},
		"a control plane that is not kubeadm's": {func(o *Options) { o.Cluster.Spec.ControlPlaneRef.Name = "other" },
			"reading the control plane", ""},
		"other authorities than the backup's": {func(o *Options) {
			o.Access = func(context.Context) (*backup.Access, error) { return &backup.Access{Config: &rest.Config{}}, nil }
		}, `another certificate authority or key "etcd"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, note := options(t), ""
			o.Note = func(text string) { note = text }
			c.change(&o)
			r, err := Prepare(t.Context(), o)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
				note != c.note {
				t.Fatalf("got %v, note %q; want %q, %q", err, note, c.want, c.note)
			}
			if err == nil && (r.Plan.First().Name != "a" || len(r.Plan.Hosts) != 3 || r.replicas != 3) {
				t.Errorf("got %+v", r)
			}
			for _, entry := range o.Hosts.(*fakeHosts).log {
				if !strings.HasPrefix(entry, "member ") {
					t.Errorf("Prepare performs %q on a host", entry)
				}
			}
		})
	}
}

// TestReplaceOthersConverges: each deletion fails in turn, and repeating it ends with a whole control plane.
func TestReplaceOthersConverges(t *testing.T) {
	for fail := range 3 { // 0: none
		t.Run(fmt.Sprint("deletion ", fail, " fails"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, deletions := options(t), 0
				o.Plane = plane(t, interceptor.Funcs{
					// The owner creates a machine for each deleted one.
					Delete: func(ctx context.Context, c client.WithWatch, m client.Object, opts ...client.DeleteOption) error {
						if deletions++; deletions == fail {
							return errFake
						}
						next := controlPlaneMachine(fmt.Sprint("new", deletions))
						return errors.Join(c.Delete(ctx, m, opts...), c.Create(ctx, next))
					},
				})
				r, err := Prepare(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				err = r.ReplaceOthers(t.Context())
				const failed = "has its data, but not all of its control plane: deleting machine"
				if (err == nil) != (fail == 0) || err != nil && !strings.Contains(err.Error(), failed) {
					t.Fatalf("error %v", err)
				}
				if err := r.ReplaceOthers(t.Context()); err != nil {
					t.Fatal(err)
				}
				machines, err := r.machines(t.Context())
				if err != nil || len(machines) != 3 {
					t.Fatalf("%d machines, %v", len(machines), err)
				}
				for _, m := range machines {
					if m.Name == "m-b" || m.Name == "m-d" {
						t.Errorf("machine %s is still there", m.Name)
					}
				}
			})
		})
	}
}

// TestReplaceOthersGivesUp: if nothing replaces the deleted machines, ReplaceOthers waits until ctx is done.
func TestReplaceOthersGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Prepare(t.Context(), options(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = r.ReplaceOthers(ctx)
		if err == nil || !strings.Contains(err.Error(), "1 of 3; waiting for machines") ||
			!strings.Contains(hint.Of(err), "cluster describe blue --watch") {
			t.Errorf("got %v with hint %q", err, hint.Of(err))
		}
	})
}

// TestOrphans: a machine is an orphan if the cluster does not know its Node.
func TestOrphans(t *testing.T) {
	r, err := Prepare(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	r.nodes = func(context.Context) ([]string, error) { return []string{"node-a", "node-d", "node-z"}, nil }
	if got, err := r.Orphans(t.Context()); err != nil || !slices.Equal(got, []string{"m-b"}) {
		t.Errorf("got %v, %v", got, err)
	}
	r.nodes = func(context.Context) ([]string, error) { return nil, errFake }
	if _, err := r.Orphans(t.Context()); !errors.Is(err, errFake) || !strings.Contains(err.Error(), "cluster blue") {
		t.Errorf("got %v", err)
	}
}
