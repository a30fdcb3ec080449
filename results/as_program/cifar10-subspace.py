# The network of cifar10-subspace.cbound as a program, to be counted: raw deflate of what follows these comments. f(s, x): s is a
# fraction whose binary digits are the payload, the 1500 integers by a fixed bell curve; x are the stored images; the result has
# the sums of the logits over the image and its mirror image.
import torch as T,numpy as N,hashlib as H
F=T.nn.functional
S=lambda t,n:N.random.Philox(key=N.frombuffer(H.sha256(b'codebound/0/'+t).digest(),'u8',2)).random_raw(n)
n=lambda v:F.group_norm(v,1)
h=lambda v,w,*z:n(F.conv2d(v,w.view(*z,3,3)/16,padding=1)).relu()
def f(s,x):
 q=[];k=N.r_[:40]-20;c=[1+int(8e4*2.**(-i*i/39))for i in k];M=sum(c)
 for _ in range(1500):
  s*=M;i=0
  while s>=c[i]:s-=c[i];i+=1
  s/=c[i];q+=[k[i]]
 w=S(b'hash',327040);a,b,c,d,e=T.tensor((N.bitwise_count(S(b'start',81760))/4-8)*(N.r_[:81760]<79200)+(N.array(q)[(w>>32)*1500>>32]*(.5-w%2)).reshape(-1,4).sum(1)).split([14688,9216,18432,36864,2560]);x=x.double()/255;o=0
 for v in x,x.flip(3):
  r,g,l=v.split(1,1);P=[];p=(r+g+l)/3,r-g,(r+g)/2-l
  for v in p:
   for z in 3,6:
    k=N.r_[-z:z+1]
    for i in range(8):w=(k+1j*k[:,None])/1j**(i/4);g=N.exp(-(w.real**2+abs(w)**2)/.64/z/z);w=g*1j**(4*w.real/z);w-=g*w.sum()/g.sum();P+=F.conv2d(v+0j,T.tensor((4096*w/(abs(w)**2).sum()**.5).round()/2048)[None,None],padding=z).abs(),
  o+=F.avg_pool2d(F.max_pool2d(h(h(F.max_pool2d(h(h(n(F.avg_pool2d(T.cat((*P,*p),1),2)),a,32,51),b,32,32),2),c,64,32),d,64,64),2),2).flatten(1)@e.view(10,-1).T
 return o
