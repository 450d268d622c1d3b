/**
 * @file Gradients of the standard kernels. The Node build of tfjs-core leaves them out; tfjs-layers registers them when it is
 * imported. Import this module wherever a gradient is taken.
 */
import "@tensorflow/tfjs-layers";
