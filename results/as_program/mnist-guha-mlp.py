# The network of mnist-guha-mlp.cbound as a program, to be counted: raw deflate of what follows these comments. f(s, x): s is a
# fraction whose binary digits are the payload, the 35520 integers, each in a context of its layer and of the weights beside it and
# above it in the image; x are the stored images.
import torch as T
def f(s,x):
 x=x.flatten(1).double()
 for o in 40,40,27,40,10:
  n=x.shape[1];q=[0]*28;C=[[1]*7 for _ in range(8)]
  for _ in range(o*n):
   i=0;c=C[(n>99)*(2*(q[-1]!=0)+(q[-28]!=0)+4*(len(q)>n+27 and q[-n]!=0))];s*=sum(c)
   while s>=c[i]:s-=c[i];i+=1
   s/=c[i];q+=[i-3];c[i]+=2
  x=(x@T.tensor(q[28:]).double().view(o,n).T);x=x if o==10 else x.relu()
 return x
