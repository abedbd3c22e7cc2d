package plane_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/plane"
	callclient "github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/templates"
)

// A plane works only once per process, and the tests kill it, so the test binary acts as the plane in separate
// processes.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PLANE_DIR"); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve runs a plane until it gets SIGTERM.
func serve(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	quota, _ := strconv.ParseInt(os.Getenv("PLANE_ETCD_QUOTA"), 10, 64)
	changes, err := gates.Parse(os.Getenv("PLANE_GATES"))
	if err != nil {
		return err
	}
	return plane.Run(ctx, plane.Options{
		Dir:   dir,
		Kube:  os.Getenv("PLANE_KUBE"),
		Audit: os.Getenv("PLANE_AUDIT"),

		MetricsAddress: os.Getenv("PLANE_METRICS"),

		Reached: func(point string) {
			if point == os.Getenv("PLANE_KILL_AT") {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},

		LeafLifetime: duration("PLANE_LEAF_LIFETIME"),
		EtcdQuota:    quota,

		Gates:   changes,
		Version: "v0.1.0",
		RuntimeClient: func(_ context.Context, mgr ctrl.Manager, _ plane.Info) (runtimeclient.Client, error) {
			return callclient.New(callclient.Options{Reader: mgr.GetClient(), Metrics: metrics.Registry})
		},
		Seed: func(plane.Info) ([][]byte, error) { return [][]byte{templates.Local}, nil },
	})
}

// duration reads an environment variable; zero if it is not set.
func duration(name string) time.Duration {
	d, err := time.ParseDuration(os.Getenv(name))
	if err != nil {
		return 0
	}
	return d
}
