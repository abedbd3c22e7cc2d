package cri

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage bounds one gRPC message, as the kubelet's client does.
const maxMessage = 16 << 20

// Endpoint is an address at which a server listens. A pod created at a hollow endpoint stays hollow, whichever endpoint
// later requests use.
type Endpoint struct {
	Listener net.Listener
	// If Hollow is true, all images exist at this endpoint, and only pods of components have processes.
	Hollow bool
}

// hollowKey is the context key of requests at a hollow endpoint.
type hollowKey struct{}

// Serve serves the runtime and the image service at endpoints until ctx ends or one of them fails. Containers keep
// running.
func (s *Server) Serve(ctx context.Context, endpoints ...Endpoint) error {
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(endpoints))
	for _, e := range endpoints {
		server := s.grpcServer(e)
		stop := context.AfterFunc(serving, server.Stop)
		defer stop()
		go func() { ended <- server.Serve(e.Listener) }()
	}
	var failed error
	for range endpoints {
		if err := <-ended; serving.Err() == nil {
			failed = fmt.Errorf("serving: %w", err)
			cancel()
		}
	}
	return failed
}

// grpcServer returns the server of one endpoint.
func (s *Server) grpcServer(e Endpoint) *grpc.Server {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			ctx, err := s.at(ctx, e)
			if err != nil {
				return nil, err
			}
			return handle(ctx, req)
		}))
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, s)
	return server
}

// at returns the context for requests at an endpoint, or the reason why the endpoint can't serve requests.
func (s *Server) at(ctx context.Context, e Endpoint) (context.Context, error) {
	if e.Hollow || s.opts.Images == nil {
		return context.WithValue(ctx, hollowKey{}, true), nil
	}
	if s.opts.Unable != nil {
		return nil, status.Error(codes.FailedPrecondition, s.opts.Unable.Error())
	}
	return ctx, nil
}

// hollow reports whether the request came in at a hollow endpoint.
func hollow(ctx context.Context) bool { return ctx.Value(hollowKey{}) != nil }

// source returns the source of images, or nil where all images exist.
func (s *Server) source(ctx context.Context) Images {
	if hollow(ctx) {
		return nil
	}
	return s.opts.Images
}
