package plane_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/plane/pki"
	"github.com/capstan-dev/capstan/plane/store"
	"github.com/capstan-dev/capstan/test/long"
)

// quota is etcd's quota in these tests, in bytes.
const quota = 32 << 20

// TestEtcdStaysBelowItsQuota: a host that writes without pause neither fills etcd nor delays others. An etcd that is
// full of needed data warns in advance, accepts deletions, and works again after them.
func TestEtcdStaysBelowItsQuota(t *testing.T) {
	t.Setenv("PLANE_ETCD_QUOTA", strconv.Itoa(quota))
	dir := filepath.Join(t.TempDir(), "plane")
	r := start(t, dir)
	ctx := bounded(t)
	keys, err := pki.Ensure(pki.Directory{Path: filepath.Join(dir, "pki")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := store.Open("https://127.0.0.1:"+strconv.Itoa(ports(r)["etcd"]), keys.EtcdCA, keys.EtcdClient)
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	t.Run("a host floods etcd", func(t *testing.T) {
		long.Need(t)
		checkFlood(t, ctx, r, etcd)
	})
	t.Run("etcd is full", func(t *testing.T) { checkFull(t, ctx, r, etcd) })
	r.stop()
}

// account creates a host and an account that may change it, and returns a client of that account.
func account(t *testing.T, ctx context.Context, r *running, name string) client.Client {
	t.Helper()
	c := r.client()
	meta := metav1.ObjectMeta{Namespace: "default", Name: name}
	host := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.capstan.dev/v1beta2", "kind": "CapstanHost",
		"metadata": map[string]any{"namespace": "default", "name": name}, "spec": map[string]any{"zone": "zone-a"},
	}}
	user := &corev1.ServiceAccount{ObjectMeta: meta}
	for _, object := range []client.Object{
		host, user,
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"infrastructure.capstan.dev"}, Resources: []string{"capstanhosts"},
			ResourceNames: []string{name}, Verbs: []string{"get", "patch"},
		}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}}},
	} {
		if err := c.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, user, token); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(r.config())
	config.BearerToken, config.QPS = token.Status.Token, -1
	limited, err := client.New(config, client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rights of "+name, func() error { return write(ctx, limited, name, "first") })
	return limited
}

// write changes a host.
func write(ctx context.Context, c client.Client, name, text string) error {
	host := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.capstan.dev/v1beta2", "kind": "CapstanHost",
		"metadata": map[string]any{"namespace": "default", "name": name},
	}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"text":%q}}}`, text)
	return c.Patch(ctx, host, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

func checkFlood(t *testing.T, ctx context.Context, r *running, etcd *store.Store) {
	const size, writers = 48 << 10, 4
	hostile, good := account(t, ctx, r, "hostile"), account(t, ctx, r, "good")
	flood, stop := context.WithCancel(ctx)
	defer stop()
	var accepted atomic.Int64
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for n := 0; flood.Err() == nil; n++ {
				if write(flood, hostile, "hostile", strings.Repeat(fmt.Sprintf("%08d", i*1_000_000+n), size/8)) == nil {
					accepted.Add(size)
				}
			}
		})
	}
	var slowest time.Duration
	var largest int64
	for begin := time.Now(); accepted.Load() < quota+quota/8; {
		asked := time.Now()
		if err := errors.Join(write(ctx, good, "good", asked.String()), use(ctx, r.client())); err != nil {
			t.Fatalf("after %d MiB, a request of others failed: %v", accepted.Load()>>20, err)
		}
		slowest = max(slowest, time.Since(asked))
		usage, err := etcd.Usage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if largest = max(largest, usage.Size); usage.Full {
			t.Fatalf("after %d MiB, etcd is full: %+v", accepted.Load()>>20, usage)
		}
		if time.Since(begin) > 2*patience {
			t.Fatalf("in %s, only %d MiB were accepted", 2*patience, accepted.Load()>>20)
		}
	}
	stop()
	group.Wait()
	t.Logf("%d MiB were accepted; etcd's file had %d MiB at most, and others waited %s at most", accepted.Load()>>20,
		largest>>20, slowest)
	if slowest > 10*time.Second {
		t.Errorf("others waited for %s, which is too long", slowest)
	}
}

func checkFull(t *testing.T, ctx context.Context, r *running, etcd *store.Store) {
	c := r.client()
	large := func(n int) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("large-%d", n)},
			Data:       map[string]string{"text": strings.Repeat(fmt.Sprintf("%08d", n), 900<<10/8)},
		}
	}
	made, warned := 0, false
	for begin := time.Now(); warns(r, "is full") != nil; { // at first, compacting old values helps
		if made > 2*quota/(900<<10) || time.Since(begin) > 2*patience {
			t.Fatalf("etcd stored %d large objects and is still not full", made)
		}
		if err := c.Create(ctx, large(made)); err != nil && !apierrors.IsAlreadyExists(err) { // a rejected object may exist
			time.Sleep(100 * time.Millisecond)
			continue
		}
		made++
		if !warned {
			eventually(t, "the plane to say that etcd is nearly full, or to make room", func() error {
				usage, err := etcd.Usage(ctx)
				if warned = warns(r, "nearly full") == nil; warned || err == nil && usage.Warning() == "" {
					return nil
				}
				return errors.Join(err, errors.New(usage.Warning()))
			})
		}
	}
	if !warned {
		t.Error("etcd became full without a warning that it was nearly full")
	}
	for n := range made / 2 {
		if err := c.Delete(ctx, large(n)); err != nil {
			t.Fatalf("a full etcd rejects a deletion: %v", err)
		}
	}
	eventually(t, "the plane to work again", func() error { return use(ctx, r.client()) })
	eventually(t, "the warning to end", func() error {
		if text, there := r.state().Warnings["etcd"]; there {
			return errors.New(text)
		}
		return nil
	})
}

// warns returns nil if the plane shows a warning about etcd with this text.
func warns(r *running, text string) error {
	if said := r.state().Warnings["etcd"]; !strings.Contains(said, text) {
		return fmt.Errorf("the warning is %q", said)
	}
	return nil
}
