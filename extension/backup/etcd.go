package backup

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/pkg/proxy"
)

const (
	etcdPort    = 2379
	dialTimeout = 10 * time.Second
	callTimeout = 15 * time.Second
	// compareTimeout limits how long a live member may take to hash all keys. A member that takes longer is too busy to be
	// asked for that.
	compareTimeout = time.Minute
	// maxSnapshot exceeds the largest database that etcd allows.
	maxSnapshot = 16 << 30
)

// member is a connection to one etcd member of a workload cluster.
type member struct {
	*clientv3.Client
	name    string
	version string
}

// connect connects to the first etcd member that answers.
func connect(ctx context.Context, config *rest.Config, certificates *tls.Config) (*member, error) {
	config = rest.CopyConfig(config)
	config.Timeout = dialTimeout
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	pods, err := clients.CoreV1().Pods(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: "component=etcd,tier=control-plane", Limit: 20})
	if err != nil {
		return nil, fmt.Errorf("listing the etcd pods of the cluster: %w", err)
	}
	if len(pods.Items) == 0 {
		return nil, errors.New("the cluster has no etcd pods: its etcd runs elsewhere, and has to be backed up there")
	}
	// Prefer pods that are ready.
	slices.SortStableFunc(pods.Items, func(a, b corev1.Pod) int { return unready(&a) - unready(&b) })
	var errs []error
	for _, pod := range pods.Items {
		m, err := connectTo(ctx, pod.Name, config, certificates)
		if err == nil {
			return m, nil
		}
		errs = append(errs, fmt.Errorf("asking %s: %w", pod.Name, err))
	}
	return nil, errors.Join(errs...)
}

func unready(pod *corev1.Pod) int {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return 0
		}
	}
	return 1
}

func connectTo(ctx context.Context, pod string, config *rest.Config, certificates *tls.Config) (*member, error) {
	dialer, err := proxy.NewDialer(proxy.Proxy{
		Kind: "pods", Namespace: metav1.NamespaceSystem, KubeConfig: config, Port: etcdPort,
	})
	if err != nil {
		return nil, err
	}
	// gRPC retries and finally only reports a timeout. If connecting fails, dialed records the real cause.
	var dialed atomic.Pointer[error]
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{pod}, DialTimeout: dialTimeout, TLS: certificates, Logger: zap.NewNop(),
		Context:            context.WithoutCancel(ctx),
		MaxCallRecvMsgSize: 16 << 20,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dialer.DialContextWithAddr(ctx, address)
			if err != nil {
				dialed.Store(&err)
				return nil, err
			}
			// The dialer set a deadline for connecting, but a snapshot takes longer.
			return conn, conn.SetDeadline(time.Time{})
		})},
	})
	if err != nil {
		return nil, err
	}
	asked, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	status, err := client.Status(asked, pod)
	if err != nil {
		if cause := dialed.Load(); cause != nil {
			err = fmt.Errorf("%w (connecting: %w)", err, *cause)
		}
		return nil, errors.Join(err, client.Close())
	}
	return &member{Client: client, name: pod, version: status.Version}, nil
}

// snapshot writes all of etcd to a new file and returns its size and SHA-256. It verifies the checksum that etcd sends
// at the end.
func (m *member) snapshot(ctx context.Context, path string) (size int64, sum []byte, err error) {
	stream, err := m.Snapshot(ctx)
	if err != nil {
		return 0, nil, fmt.Errorf("asking %s for a snapshot: %w", m.name, err)
	}
	defer stream.Close()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, nil, fmt.Errorf("writing the snapshot: %w", err)
	}
	all, tail := sha256.New(), newTrailing()
	size, err = io.Copy(io.MultiWriter(file, all, tail), io.LimitReader(stream, maxSnapshot))
	if err := errors.Join(err, file.Close()); err != nil {
		return 0, nil, fmt.Errorf("reading the snapshot from %s: %w", m.name, err)
	}
	if !tail.right() {
		return 0, nil, fmt.Errorf("the snapshot from %s arrived damaged or incomplete (%d bytes): its checksum is wrong",
			m.name, size)
	}
	return size, all.Sum(nil), nil
}

// trailing hashes everything except the last bytes, which hold the hash itself.
type trailing struct {
	hash hash.Hash
	last []byte
}

func newTrailing() *trailing { return &trailing{hash: sha256.New()} }

// Write implements io.Writer.
func (t *trailing) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	if n := len(t.last) - sha256.Size; n > 0 {
		t.hash.Write(t.last[:n])
		t.last = append(t.last[:0], t.last[n:]...)
	}
	return len(p), nil
}

func (t *trailing) right() bool { return string(t.hash.Sum(nil)) == string(t.last) }
