/**
 * @file Gradients of the standard tfjs kernels. The Node build of tfjs-core omits them; importing tfjs-layers registers them. Import this
 * module wherever gradients are taken.
 */
import "@tensorflow/tfjs-layers";
