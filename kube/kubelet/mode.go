package kubelet

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/mode"
)

// modeLimit bounds the wait for the container runtime to report its mode.
const modeLimit = 30 * time.Second

// askMode asks the container runtime at an endpoint for its mode.
func askMode(ctx context.Context, endpoint string) (mode.Mode, error) {
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(endpoint, "unix://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return mode.Mode{}, fmt.Errorf("connecting to the container runtime at %s: %w", endpoint, err)
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	ctx, cancel := context.WithTimeout(ctx, modeLimit)
	defer cancel()
	version, err := client.Version(ctx, &runtimeapi.VersionRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return mode.Mode{}, fmt.Errorf("asking the container runtime at %s for its name: %w", endpoint, err)
	}
	status, err := client.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return mode.Mode{}, fmt.Errorf("asking the container runtime at %s for its status: %w", endpoint, err)
	}
	return mode.Parse(version.RuntimeName, status.Info), nil
}
