// Package contract holds the contracts of Cluster API as data: each rule that a provider, a runtime extension, core or
// clusterctl must keep.
//
// [Rules] returns the rules. [Decisions] returns the reading to follow wherever the sources contradict each other.
// [Sequences] returns the behaviour tests: what to do, and what must then be observed. [Find] looks up one rule by its
// id.
//
// # Families
//
//   - IM, IMT: InfraMachine and its template
//   - IC, ICT: InfraCluster and its template
//   - CP, BP, MP: ControlPlane, BootstrapConfig and InfraMachinePool, with their templates
//   - CC: ClusterClasses, their variables and patches
//   - RV: releases over time, and what Kubernetes asks of definitions, webhooks and components
//   - RB: roles and their rights
//   - CT: the clusterctl provider contract
//   - RX: Runtime Extension server and Discovery
//   - RC: registration by ExtensionConfig
//   - RS: rules of the Runtime SDK: versions, catalog, conversion, OpenAPI
//   - CL: client and semantics of calls
//   - LH: lifecycle hooks
//   - UH: hooks that exist upstream beside the lifecycle hooks
//   - SG: security and best practice
//
// # Sources
//
// A rule's source names a document, then its section:
package contract
