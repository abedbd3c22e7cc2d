// Package certificate makes and renews the certificate of an extension's server, for management clusters without
// cert-manager.
//
//	store := certificate.InSecret(client, types.NamespacedName{Namespace: "capstan-system", Name: "capstan-extension-cert"})
//	keeper, err := certificate.New(ctx, store, certificate.Options{Hosts: certificate.ServiceHosts("capstan-extension", "capstan-system")})
//	...
//	go keeper.Run(ctx)
//	err = server.Serve(ctx, server.TLS{Address: ":9443", GetCertificate: keeper.GetCertificate}, extension)
//
// A [Keeper] holds an authority of its own and a server certificate of it. Both live in a [Store], which all replicas
// of an extension share: whoever finds something to renew first renews it, the others take over what they find. The
// authorities that callers have to trust are published as "ca.crt" of the store; an ExtensionConfig with the annotation
// that [Annotation] names gets them from the Secret (RC-09).
//
// Renewal leaves no gap. A certificate is renewed after two thirds of its life. A new authority is published beside the
// old one for [Options.Overlap] before anything is signed by it, so that callers know it when they meet it.
package certificate
