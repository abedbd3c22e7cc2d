package certificate_test

import (
	"context"
	"fmt"
	"os"

	"github.com/capstan-dev/capstan/runtime/certificate"
)

// A server without replicas keeps its certificate in a directory. In a management cluster, use certificate.InSecret.
func Example() {
	directory, err := os.MkdirTemp("", "certificate-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)
	keeper, err := certificate.New(context.Background(), certificate.InDirectory(directory), certificate.Options{
		Hosts: certificate.ServiceHosts("quota", "quota-system"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// In a program: go keeper.Run(ctx), and server.Serve(ctx, server.TLS{GetCertificate: keeper.GetCertificate, ...},
	// extension).
	pair, err := keeper.GetCertificate(nil)
	fmt.Println(pair.Leaf.DNSNames, err)
	// Output: [quota.quota-system.svc quota.quota-system.svc.cluster.local quota.quota-system quota] <nil>
}
