// Package certificate issues and renews the certificate of an extension's server, for management clusters without
// cert-manager.
//
//	store := certificate.InSecret(client, types.NamespacedName{Namespace: "capstan-system", Name: "capstan-extension-cert"})
//	keeper, err := certificate.New(ctx, store, certificate.Options{Hosts: certificate.ServiceHosts("capstan-extension", "capstan-system")})
//	...
//	go keeper.Run(ctx)
//	err = server.Serve(ctx, server.TLS{Address: ":9443", GetCertificate: keeper.GetCertificate}, extension)
//
// A [Keeper] has its own certificate authority and a server certificate signed by it. Both live in a [Store], which all
// replicas of an extension share. When a renewal is due, the replica that notices this first makes the renewal, and the
// others load the result. The store publishes the authorities that callers must trust as "ca.crt"; an ExtensionConfig
// with the annotation that [Annotation] returns gets them from the Secret (RC-09).
//
// Renewal causes no interruption. A certificate is renewed after two thirds of its lifetime. A new authority is
// published together with the old one for [Options.Overlap] before it signs anything, so that callers know it in time.
//
// Ids such as RC-09 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package certificate
