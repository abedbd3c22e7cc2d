// Package metricsapi is the metrics API of a cluster, which "kubectl top" and autoscalers query: a small server that
// the API server calls for metrics.k8s.io.
//
// It reads metrics from kubelets only while clients query it, and keeps the last two readings.
package metricsapi

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/component-base/version"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/metrics/pkg/apis/metrics"
	"k8s.io/metrics/pkg/apis/metrics/install"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// port is where the server listens.
const port = 8443

var scheme = makeScheme()

func makeScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}

// NewCommand returns the server's command. Its subcommand manifest prints the objects that a cluster needs for the
// server.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: Name, Short: "Serve metrics.k8s.io for the cluster in which this program runs as a pod", Args: cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(*cobra.Command, []string) error { return serve(genericapiserver.SetupSignalContext()) },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "manifest", Short: "Print the objects of a cluster's metrics API", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), Manifest(version.Get().GitVersion))
			return err
		},
	})
	return cmd
}

// serve serves until ctx ends.
func serve(ctx context.Context) error {
	config, err := clientrest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster (this must run in one of its pods): %w", err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	services, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	server, authority, err := newServer()
	if err != nil {
		return err
	}
	r := newReader(newKubelets(api, slog.New(slog.NewTextHandler(os.Stderr, nil))).read)
	if err := serveFrom(server, objects, r); err != nil {
		return err
	}
	if err := publish(ctx, services, authority); err != nil {
		return err
	}
	return server.PrepareRun().RunWithContext(ctx)
}

// serveFrom installs the API in a server. The server finds Nodes and pods with the client objects, and gets their usage
// from the reader r.
func serveFrom(server *genericapiserver.GenericAPIServer, objects metadata.Interface, r *reader) error {
	core := schema.GroupVersion{Version: "v1"}
	group := genericapiserver.NewDefaultAPIGroupInfo(metrics.GroupName, scheme, metav1.ParameterCodec,
		serializer.NewCodecFactory(scheme))
	group.VersionedResourcesStorageMap[v1beta1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"nodes": newNodes(objects.Resource(core.WithResource("nodes")), r),
		"pods":  newPods(objects.Resource(core.WithResource("pods")), r),
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return fmt.Errorf("installing the API: %w", err)
	}
	return nil
}

// newConfig returns a server's configuration that does not yet set addresses, authentication or authorization.
func newConfig() *genericapiserver.Config {
	config := genericapiserver.NewConfig(serializer.NewCodecFactory(scheme))
	config.EffectiveVersion = utilcompatibility.DefaultBuildEffectiveVersion()
	config.EnableMetrics, config.EnableProfiling = false, false
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions,
		openapinamer.NewDefinitionNamer(scheme))
	config.OpenAPIV3Config.Info.Title = Name
	return config
}

// newServer returns a server that delegates authentication and authorization to the cluster's API server. It also
// returns the authority of the server's certificate.
func newServer() (*genericapiserver.GenericAPIServer, []byte, error) {
	config := newConfig()
	serving := genericoptions.NewSecureServingOptions().WithLoopback()
	serving.BindAddress, serving.BindPort = net.IPv6unspecified, port
	certificate, authority, err := makeCertificate()
	if err != nil {
		return nil, nil, err
	}
	serving.ServerCert.GeneratedCert = certificate
	if err := serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return nil, nil, fmt.Errorf("listening on port %d: %w", port, err)
	}
	if err := genericoptions.NewDelegatingAuthenticationOptions().ApplyTo(&config.Authentication, config.SecureServing,
		nil); err != nil {
		return nil, nil, fmt.Errorf("setting up authentication by the cluster's API server: %w", err)
	}
	if err := genericoptions.NewDelegatingAuthorizationOptions().ApplyTo(&config.Authorization); err != nil {
		return nil, nil, fmt.Errorf("setting up authorization by the cluster's API server: %w", err)
	}
	server, err := config.Complete(nil).New(Name, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, nil, fmt.Errorf("making the server: %w", err)
	}
	return server, authority, nil
}
